// Makes gRPC calls as a file on standard input says, and prints what came of them.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type step struct {
	Send []byte `json:"send"`
	Read int    `json:"read"`
}

type call struct {
	Steps      []step            `json:"steps"`
	Path       string            `json:"path"`
	End        string            `json:"end"`
	Timeout    float64           `json:"timeout"`
	Metadata   map[string]string `json:"metadata"`
	Compressed bool              `json:"compressed"`
}

type order struct {
	Target string `json:"target"`
	CA     string `json:"ca"`
	// Each connection makes all calls at the same time.
	Connections int    `json:"connections"`
	Calls       []call `json:"calls"`
}

type outcome struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Answers [][]byte `json:"answers"`
}

// raw passes messages as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte{}, data...)
	return nil
}

func (raw) Name() string { return "proto" }

func main() {
	outcomes, err := run(os.Stdin)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(outcomes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader) ([][]outcome, error) {
	var todo order
	if err := json.NewDecoder(input).Decode(&todo); err != nil {
		return nil, err
	}
	outcomes := make([][]outcome, todo.Connections)
	var group sync.WaitGroup
	for number := range outcomes {
		connection, err := connect(todo)
		if err != nil {
			return nil, err
		}
		defer connection.Close()
		outcomes[number] = make([]outcome, len(todo.Calls))
		for at, each := range todo.Calls {
			group.Go(func() { outcomes[number][at] = perform(connection, each) })
		}
	}
	group.Wait()
	return outcomes, nil
}

func connect(todo order) (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if todo.CA != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(todo.CA))
		security = credentials.NewTLS(&tls.Config{RootCAs: pool})
	}
	return grpc.NewClient(
		todo.Target,
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})),
	)
}

func perform(connection *grpc.ClientConn, todo call) outcome {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if todo.Timeout > 0 {
		var late context.CancelFunc
		ctx, late = context.WithTimeout(ctx, time.Duration(todo.Timeout*float64(time.Second)))
		defer late()
	}
	for name, value := range todo.Metadata {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	var options []grpc.CallOption
	if todo.Compressed {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	description := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	stream, err := connection.NewStream(ctx, description, todo.Path, options...)
	if err != nil {
		return told(err, nil)
	}
	answers, err := talk(stream, todo, cancel)
	return told(err, answers)
}

func talk(stream grpc.ClientStream, todo call, cancel func()) ([][]byte, error) {
	var answers [][]byte
	read := func() error {
		var answer []byte
		err := stream.RecvMsg(&answer)
		if err == nil {
			answers = append(answers, answer)
		}
		return err
	}
	for _, next := range todo.Steps {
		for range next.Read {
			if err := read(); err != nil {
				return answers, err
			}
		}
		if next.Read > 0 {
			continue
		}
		// An EOF says that the stream is over; reading tells why.
		if err := stream.SendMsg(&next.Send); err != nil && !errors.Is(err, io.EOF) {
			return answers, err
		}
	}
	if todo.End == "cancel" {
		cancel()
	} else if todo.End == "half-close" {
		if err := stream.CloseSend(); err != nil {
			return answers, err
		}
	}
	for {
		if err := read(); err != nil {
			return answers, err
		}
	}
}

func told(err error, answers [][]byte) outcome {
	if errors.Is(err, io.EOF) {
		return outcome{Answers: answers}
	}
	verdict := status.Convert(err)
	return outcome{int(verdict.Code()), strings.TrimSpace(verdict.Message()), answers}
}
