// Loadgen drives an Endpoint Picker over gRPC as Envoy does: one stream for each HTTP request, its
// messages in the order and at the moments Envoy would send them. What it sends comes from a file;
// answers are looked at just enough to know when to go on, and every n-th request is checked in
// full. So it costs less than what it measures.
//
// It prints one JSON object.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	windowBytes     = 1 << 20 // of a stream; of the connection 16 times that
	pauseAfterError = 20 * time.Millisecond
	patience        = 15 * time.Second // for streams that are open when time is up
)

type report struct {
	Requests   float64 `json:"requests"` // in parts: half of a request's answers are half a request
	Picks      int     `json:"picks"`
	Seconds    float64 `json:"seconds"`
	Errors     int     `json:"errors"`
	FirstError string  `json:"first_error"`
	PickP50    float64 `json:"pick_p50_ms"`
	PickP99    float64 `json:"pick_p99_ms"`
	CPU        float64 `json:"cpu_seconds"`     // of the server, in all its threads
	OwnCPU     float64 `json:"own_cpu_seconds"` // of this program
	RSS        int64   `json:"rss_bytes"`       // of the server, at the end
	Scrapes    uint64  `json:"scrapes"`
}

// worker sends one request after the other and keeps what came of them.
type worker struct {
	connection *grpc.ClientConn
	traffic    *traffic
	sent       [][]byte
	received   []byte

	isMeasuring *atomic.Bool
	steps       atomic.Uint64 // answered: the pick and each message of a response
	picks       []float64     // ms from opening the stream to the last answer of the request phase
	errors      int
	firstError  string
}

func main() {
	address := flag.String("address", "", "server, on a loopback address")
	useTLS := flag.Bool("tls", false, "TLS, without looking at the certificate")
	trafficFile := flag.String("traffic", "", "what to send; see traffic.go")
	streams := flag.Int("streams", 8, "streams open at once")
	warmUp := flag.Duration("warm-up", 500*time.Millisecond, "time before measuring")
	duration := flag.Duration("duration", 2*time.Second, "measured time")
	pid := flag.Int("pid", 0, "process of the server")
	scrapes := flag.String("scrapes", "", "file that counts pages of metrics the server has read, as 8 bytes")
	checkEvery := flag.Int("check-every", 50, "check the answers to every n-th request of a stream")
	flag.Parse()
	if !strings.HasPrefix(*address, "127.0.0.1:") {
		fail(fmt.Errorf("-address %q: must begin with 127.0.0.1:", *address))
	}
	runtime.GOMAXPROCS(1)
	traffic, err := readTraffic(*trafficFile)
	if err != nil {
		fail(err)
	}
	connection, err := connect(*address, *useTLS)
	if err != nil {
		fail(err)
	}

	var isMeasuring, isOver atomic.Bool
	var serial atomic.Uint64
	serial.Store(uint64(time.Now().UnixNano())) // requests of two runs differ
	workers := make([]worker, *streams)
	var open sync.WaitGroup
	for i := range workers {
		w := &workers[i]
		w.connection, w.traffic, w.isMeasuring = connection, traffic, &isMeasuring
		open.Go(func() {
			choice := rand.New(rand.NewSource(int64(i)))
			for n := 0; !isOver.Load(); n++ {
				request := traffic.Requests[choice.Intn(len(traffic.Requests))]
				w.keep(w.run(request, serial.Add(1), n%*checkEvery == 0))
			}
		})
	}

	time.Sleep(*warmUp)
	start := measure(workers, *pid, *scrapes)
	isMeasuring.Store(true)
	time.Sleep(*duration)
	isMeasuring.Store(false)
	end := measure(workers, *pid, *scrapes)
	isOver.Store(true)
	if !wait(&open) {
		fail(fmt.Errorf("streams were still open %s after the end", patience))
	}
	result := report{Requests: float64(end.steps-start.steps) / float64(1+len(traffic.Response)),
		Seconds: end.at.Sub(start.at).Seconds(), CPU: end.cpu - start.cpu, OwnCPU: end.ownCPU - start.ownCPU,
		Scrapes: end.scrapes - start.scrapes, RSS: end.rss}
	summarize(workers, &result)
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func connect(address string, useTLS bool) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if useTLS {
		security = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	}
	return grpc.NewClient(address, grpc.WithTransportCredentials(security),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(16*windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.ForceCodecV2(rawCodec{})))
}

// meters are what is read when measuring begins and when it ends.
type meters struct {
	at          time.Time
	cpu, ownCPU float64
	rss         int64
	scrapes     uint64
	steps       uint64 // of all requests: of long ones few begin or end while one measures
}

func measure(workers []worker, pid int, scrapes string) meters {
	now := meters{at: time.Now(), cpu: cpuSeconds(pid), ownCPU: cpuSeconds(os.Getpid()),
		rss: residentBytes(pid), scrapes: counted(scrapes)}
	for i := range workers {
		now.steps += workers[i].steps.Load()
	}
	return now
}

func summarize(workers []worker, result *report) {
	var picks []float64
	for i := range workers {
		w := &workers[i]
		picks = append(picks, w.picks...)
		result.Errors += w.errors
		if result.FirstError == "" {
			result.FirstError = w.firstError
		}
	}
	sort.Float64s(picks)
	if result.Picks = len(picks); len(picks) > 0 {
		result.PickP50, result.PickP99 = picks[len(picks)/2], picks[len(picks)*99/100]
	}
}

func wait(open *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { open.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}

func (w *worker) keep(err error) {
	if err == nil {
		return
	}
	w.errors++
	if w.firstError == "" {
		w.firstError = err.Error()
	}
	time.Sleep(pauseAfterError)
}

// run takes one request from its first message to the end of its stream.
func (w *worker) run(request []message, serial uint64, isChecked bool) error {
	w.sent = stamped(request, serial, w.sent)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := time.Now()
	stream, err := w.connection.NewStream(ctx, &streamOfMessages, processMethod)
	if err != nil {
		return err
	}
	for _, message := range w.sent {
		if err := stream.SendMsg(message); err != nil {
			break // receiving tells why
		}
	}
	answers := requestPhase{messages: len(w.sent), isKept: isChecked}
	for !answers.areComplete() {
		if err := stream.RecvMsg(&w.received); err != nil {
			return fmt.Errorf("request phase: %w", err)
		}
		if err := answers.add(w.received); err != nil {
			return err
		}
	}
	if w.isMeasuring.Load() {
		w.picks = append(w.picks, time.Since(started).Seconds()*1e3)
	}
	w.steps.Add(1)
	if isChecked {
		if err := answers.check(w.sent); err != nil {
			return err
		}
	}
	return w.respond(stream)
}

// respond sends the model server's response, each message when the one before has been answered.
func (w *worker) respond(stream grpc.ClientStream) error {
	for _, message := range w.traffic.Response {
		if err := stream.SendMsg(message); err != nil {
			return err
		}
		if err := stream.RecvMsg(&w.received); err != nil {
			return fmt.Errorf("response phase: %w", err)
		}
		if kind := kindOf(w.received); kind != responseHeaders && kind != responseBody {
			return fmt.Errorf("response phase: answer %d of ProcessingResponse", kind)
		}
		w.steps.Add(1)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return expectEnd(stream, &w.received)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "loadgen:", err)
	os.Exit(1)
}
