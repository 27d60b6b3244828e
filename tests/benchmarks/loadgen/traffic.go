package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// mark stands in messages where each request has something of its own: 16 digits replace it.
const mark = "SERIAL0123456789"

// message is a ProcessingRequest, encoded, and where it holds the mark.
type message struct {
	encoded []byte
	mark    int // -1: nowhere
}

// traffic is what the file holds: alternatives for the request, of which every request takes one,
// and the response, the same for all. Messages are base64 of encoded ProcessingRequests.
type traffic struct {
	Requests [][]message `json:"requests"`
	Response [][]byte    `json:"response"`
}

func (m *message) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &m.encoded); err != nil {
		return err
	}
	m.mark = bytes.Index(m.encoded, []byte(mark))
	return nil
}

func readTraffic(name string) (*traffic, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	read := &traffic{}
	if err := json.Unmarshal(text, read); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(read.Requests) == 0 {
		return nil, fmt.Errorf("%s: requests: must not be empty", name)
	}
	return read, nil
}

// stamped copies a request's messages into buffers, with the serial number where the marks are.
func stamped(request []message, serial uint64, buffers [][]byte) [][]byte {
	digits := fmt.Sprintf("%016x", serial*0x9E3779B97F4A7C15) // neighbours have nothing in common
	for len(buffers) < len(request) {
		buffers = append(buffers, nil)
	}
	for i, message := range request {
		buffers[i] = append(buffers[i][:0], message.encoded...)
		if message.mark >= 0 {
			copy(buffers[i][message.mark:], digits)
		}
	}
	return buffers[:len(request)]
}
