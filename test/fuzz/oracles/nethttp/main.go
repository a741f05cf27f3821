// SPDX-License-Identifier: Apache-2.0

// Command nethttp is Go's net/http as an oracle of the fuzzer: see bpf/test/oracle.h.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/xlb-project/xlb/test/fuzz/oracles/question"
)

const kindRequest = 1

func main() {
	if err := question.Serve(bufio.NewReader(os.Stdin), os.Stdout, check); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(1)
	}
}

// check says whether the data begin with a message of the lengths in the question.
func check(h *question.Head, data []byte) error {
	in := bytes.NewReader(data)
	// The smallest buffer, and the rest put back: what has been read beyond the head is counted out below.
	buffered := bufio.NewReader(in)
	length, body, encoding, err := read(h.Kind, buffered)
	if err != nil {
		return err
	}
	if head := len(data) - in.Len() - buffered.Buffered(); head != int(h.Head) {
		return fmt.Errorf("head of %d bytes, want %d", head, h.Head)
	}
	if len(encoding) == 0 {
		if length < 0 || uint64(length) != h.Body {
			return fmt.Errorf("length %d, want %d", length, h.Body)
		}
		return nil
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if end := len(data) - in.Len() - buffered.Buffered(); end != int(h.Head)+int(h.Body) {
		return fmt.Errorf("body of %d bytes, want %d", end-int(h.Head), h.Body)
	}
	return nil
}

// read returns the length of the body, 0 where there is none.
func read(kind uint32, from *bufio.Reader) (length int64, body io.Reader, encoding []string, err error) {
	if kind == kindRequest {
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
