package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

const processMethod = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"

var streamOfMessages = grpc.StreamDesc{ClientStreams: true, ServerStreams: true}

// Numbers of fields in Envoy's messages.
const (
	requestHeaders    = 1 // of ProcessingResponse, like the next four
	responseHeaders   = 2
	requestBody       = 3
	responseBody      = 4
	immediateResponse = 7
	dynamicMetadata   = 8
	lastOfOneof       = 7
)

var (
	destination      = []byte("x-gateway-destination-endpoint")
	metadataSpace    = []byte("envoy.lb")
	streamedResponse = []protowire.Number{requestBody, 1, 3, 3} // response.body_mutation.streamed_response
	setHeaders       = []protowire.Number{requestHeaders, 1, 2} // response.header_mutation
	sentBody         = []protowire.Number{4, 1}                 // ProcessingRequest.request_body.body
)

// requestPhase gathers the answers up to the end of the request's body.
type requestPhase struct {
	messages    int // that were sent
	isKept      bool
	kept        [][]byte
	bodyAnswers int
	hasHeaders  bool
	hasBody     bool
}

func (p *requestPhase) areComplete() bool { return p.hasHeaders && p.hasBody }

func (p *requestPhase) add(answer []byte) error {
	switch kind := kindOf(answer); kind {
	case requestHeaders:
		p.hasHeaders = true
	case requestBody:
		p.bodyAnswers++
		streamed := field(answer, streamedResponse...)
		// A server that leaves the body as it is answers each of its messages.
		p.hasBody = isEnd(streamed) || streamed == nil && p.bodyAnswers == p.messages-1
	case immediateResponse:
		return fmt.Errorf("immediate response: %q", answer)
	default:
		return fmt.Errorf("request phase: answer %d of ProcessingResponse", kind)
	}
	if p.isKept {
		p.kept = append(p.kept, bytes.Clone(answer))
	}
	return nil
}

// check holds that header and metadata name one endpoint, and that the body came back.
func (p *requestPhase) check(sent [][]byte) error {
	var inHeader, inMetadata, want, got []byte
	isStreamed := false
	for _, answer := range p.kept {
		for option := range fields(field(answer, setHeaders...), 1) {
			if header := field(option, 1); bytes.EqualFold(field(header, 1), destination) {
				inHeader = append(field(header, 2), field(header, 3)...)
			}
		}
		if metadata := field(answer, dynamicMetadata); metadata != nil {
			inMetadata = field(member(field(member(metadata, metadataSpace), 5), destination), 3)
		}
		if streamed := field(answer, streamedResponse...); streamed != nil {
			isStreamed = true
			got = append(got, field(streamed, 1)...)
		}
	}
	for _, message := range sent {
		want = append(want, field(message, sentBody...)...)
	}
	if len(inHeader) == 0 || !bytes.Equal(inHeader, inMetadata) {
		return fmt.Errorf("destination: header %q, metadata %q", inHeader, inMetadata)
	}
	if isStreamed && !bytes.Equal(got, want) {
		return fmt.Errorf("body: %d bytes came back of %d, or others", len(got), len(want))
	}
	return nil
}

func expectEnd(stream grpc.ClientStream, buffer *[]byte) error {
	err := stream.RecvMsg(buffer)
	if err == nil {
		return errors.New("end of stream: one more message")
	}
	if err != io.EOF {
		return fmt.Errorf("end of stream: %w", err)
	}
	return nil
}

// kindOf tells which answer a ProcessingResponse is: the number of its oneof's field.
func kindOf(answer []byte) protowire.Number {
	for len(answer) > 0 {
		number, kind, n := protowire.ConsumeTag(answer)
		if n < 0 {
			return 0
		}
		if number <= lastOfOneof && kind == protowire.BytesType {
			return number
		}
		skipped := protowire.ConsumeFieldValue(number, kind, answer[n:])
		if skipped < 0 {
			return 0
		}
		answer = answer[n+skipped:]
	}
	return 0
}

// field follows a path of field numbers; nil when there is no such field.
func field(message []byte, path ...protowire.Number) []byte {
	for _, number := range path {
		var found []byte
		for value := range fields(message, number) {
			found = value
			break
		}
		if found == nil {
			return nil
		}
		message = found
	}
	return message
}

// fields are the values of one field that is repeated, or there once.
func fields(message []byte, wanted protowire.Number) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(message) > 0 {
			number, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				return
			}
			length := protowire.ConsumeFieldValue(number, kind, message[n:])
			if length < 0 {
				return
			}
			if number == wanted && kind == protowire.BytesType {
				value, _ := protowire.ConsumeBytes(message[n:])
				if !yield(value) {
					return
				}
			}
			message = message[n+length:]
		}
	}
}

// member is the Value of a key of a Struct.
func member(structure, key []byte) []byte {
	for entry := range fields(structure, 1) {
		if bytes.Equal(field(entry, 1), key) {
			return field(entry, 2)
		}
	}
	return nil
}

// isEnd tells whether end_of_stream is set in a StreamedBodyResponse.
func isEnd(streamed []byte) bool {
	for len(streamed) > 0 {
		number, kind, n := protowire.ConsumeTag(streamed)
		if n < 0 {
			return false
		}
		if number == 2 && kind == protowire.VarintType {
			value, _ := protowire.ConsumeVarint(streamed[n:])
			return value != 0
		}
		length := protowire.ConsumeFieldValue(number, kind, streamed[n:])
		if length < 0 {
			return false
		}
		streamed = streamed[n+length:]
	}
	return false
}

// rawCodec passes encoded messages on as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, message any) error {
	into := message.(*[]byte)
	if cap(*into) < data.Len() {
		*into = make([]byte, data.Len())
	}
	*into = (*into)[:data.Len()]
	data.CopyTo(*into)
	return nil
}
