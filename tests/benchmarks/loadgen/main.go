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
	Requests   int     `json:"requests"`
	Seconds    float64 `json:"seconds"`
	Errors     int     `json:"errors"`
	FirstError string  `json:"first_error"`
	PickP50    float64 `json:"pick_p50_ms"`
	PickP99    float64 `json:"pick_p99_ms"`
	CPU        float64 `json:"cpu_seconds"`     // of the server, in all its threads
	OwnCPU     float64 `json:"own_cpu_seconds"` // of this program
	RSS        int64   `json:"rss_bytes"`       // of the server, at the end
}

// worker sends one request after the other and keeps what came of them.
type worker struct {
	picks      []float64 // ms from opening the stream to the last answer of the request phase
	errors     int
	firstError string
}

func main() {
	address := flag.String("address", "", "server, on a loopback address")
	useTLS := flag.Bool("tls", false, "TLS, without looking at the certificate")
	trafficFile := flag.String("traffic", "", "what to send; see traffic.go")
	streams := flag.Int("streams", 8, "streams open at once")
	warmUp := flag.Duration("warm-up", 500*time.Millisecond, "time before measuring")
	duration := flag.Duration("duration", 2*time.Second, "measured time")
	pid := flag.Int("pid", 0, "process of the server")
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
		open.Go(func() {
			session := &session{connection: connection, traffic: traffic}
			choice := rand.New(rand.NewSource(int64(i)))
			for n := 0; !isOver.Load(); n++ {
				request := traffic.Requests[choice.Intn(len(traffic.Requests))]
				wasMeasuring := isMeasuring.Load()
				pick, err := session.run(request, serial.Add(1), n%*checkEvery == 0)
				workers[i].keep(pick, err, wasMeasuring)
			}
		})
	}

	time.Sleep(*warmUp)
	before, own, started := cpuSeconds(*pid), cpuSeconds(os.Getpid()), time.Now()
	isMeasuring.Store(true)
	time.Sleep(*duration)
	isMeasuring.Store(false)
	result := report{Seconds: time.Since(started).Seconds(), CPU: cpuSeconds(*pid) - before,
		OwnCPU: cpuSeconds(os.Getpid()) - own, RSS: residentBytes(*pid)}
	isOver.Store(true)
	if !wait(&open) {
		fail(fmt.Errorf("streams were still open %s after the end", patience))
	}
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

func (w *worker) keep(pick time.Duration, err error, isMeasured bool) {
	if err != nil {
		w.errors++
		if w.firstError == "" {
			w.firstError = err.Error()
		}
		time.Sleep(pauseAfterError)
	} else if isMeasured {
		w.picks = append(w.picks, pick.Seconds()*1e3)
	}
}

func summarize(workers []worker, result *report) {
	var picks []float64
	for _, w := range workers {
		picks = append(picks, w.picks...)
		result.Errors += w.errors
		if result.FirstError == "" {
			result.FirstError = w.firstError
		}
	}
	sort.Float64s(picks)
	if result.Requests = len(picks); len(picks) > 0 {
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

// session is one worker's buffers and its way to the server.
type session struct {
	connection *grpc.ClientConn
	traffic    *traffic
	sent       [][]byte
	received   []byte
}

// run takes one request from its first message to the end of its stream; returns the pick's time.
func (s *session) run(request []message, serial uint64, isChecked bool) (time.Duration, error) {
	s.sent = stamped(request, serial, s.sent)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := time.Now()
	stream, err := s.connection.NewStream(ctx, &streamOfMessages, processMethod)
	if err != nil {
		return 0, err
	}
	for _, message := range s.sent {
		if err := stream.SendMsg(message); err != nil {
			break // receiving tells why
		}
	}
	answers := requestPhase{messages: len(s.sent), isKept: isChecked}
	for !answers.areComplete() {
		if err := stream.RecvMsg(&s.received); err != nil {
			return 0, fmt.Errorf("request phase: %w", err)
		}
		if err := answers.add(s.received); err != nil {
			return 0, err
		}
	}
	pick := time.Since(started)
	if isChecked {
		if err := answers.check(s.sent); err != nil {
			return 0, err
		}
	}
	return pick, s.respond(stream)
}

// respond sends the model server's response, each message when the one before has been answered.
func (s *session) respond(stream grpc.ClientStream) error {
	for _, message := range s.traffic.Response {
		if err := stream.SendMsg(message); err != nil {
			return err
		}
		if err := stream.RecvMsg(&s.received); err != nil {
			return fmt.Errorf("response phase: %w", err)
		}
		if kind := kindOf(s.received); kind != responseHeaders && kind != responseBody {
			return fmt.Errorf("response phase: answer %d of ProcessingResponse", kind)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	return expectEnd(stream, &s.received)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "loadgen:", err)
	os.Exit(1)
}
