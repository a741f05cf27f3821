// SPDX-License-Identifier: Apache-2.0

// Command nethttp is Go's net/http as an oracle of the fuzzer: see bpf/test/oracle.h.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

const kindRequest = 1

// record is a question: does data begin with a message of these lengths?
type record struct {
	Kind, Size, Head uint32
	Body             uint64
}

func main() {
	if err := serve(bufio.NewReader(os.Stdin), os.Stdout); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(1)
	}
}

// serve answers until the questions end, which is io.EOF.
func serve(questions io.Reader, answers io.Writer) error {
	for {
		var r record
		if err := binary.Read(questions, binary.NativeEndian, &r); err != nil {
			return err
		}
		data := make([]byte, r.Size)
		if _, err := io.ReadFull(questions, data); err != nil {
			return err
		}
		answer := []byte{0}
		if err := r.check(data); err != nil {
			fmt.Fprintln(os.Stderr, "nethttp:", err)
		} else {
			answer[0] = 1
		}
		if _, err := answers.Write(answer); err != nil {
			return err
		}
	}
}

func (r *record) check(data []byte) error {
	in := bytes.NewReader(data)
	// The smallest buffer, and the rest put back: what has been read beyond the head is counted out below.
	buffered := bufio.NewReader(in)
	length, body, encoding, err := r.read(buffered)
	if err != nil {
		return err
	}
	if head := len(data) - in.Len() - buffered.Buffered(); head != int(r.Head) {
		return fmt.Errorf("head of %d bytes, want %d", head, r.Head)
	}
	if len(encoding) == 0 {
		if length < 0 || uint64(length) != r.Body {
			return fmt.Errorf("length %d, want %d", length, r.Body)
		}
		return nil
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if end := len(data) - in.Len() - buffered.Buffered(); end != int(r.Head)+int(r.Body) {
		return fmt.Errorf("body of %d bytes, want %d", end-int(r.Head), r.Body)
	}
	return nil
}

// read returns the length of the body, 0 where there is none.
func (r *record) read(from *bufio.Reader) (length int64, body io.Reader, encoding []string, err error) {
	if r.Kind == kindRequest {
		request, err := http.ReadRequest(from)
		if err != nil {
			return 0, nil, nil, err
		}
		return request.ContentLength, request.Body, request.TransferEncoding, nil
	}
	response, err := http.ReadResponse(from, &http.Request{Method: http.MethodGet})
	if err != nil {
		return 0, nil, nil, err
	}
	if response.StatusCode == http.StatusNoContent || response.StatusCode == http.StatusNotModified {
		return 0, nil, nil, nil
	}
	return response.ContentLength, response.Body, response.TransferEncoding, nil
}
