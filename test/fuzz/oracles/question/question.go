// SPDX-License-Identifier: Apache-2.0

// Package question is the protocol between the fuzzer and its oracles: see bpf/test/oracle.h.
package question

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Head is what stands before the data of a question.
type Head struct {
	Kind, Size, Head uint32
	Body             uint64
}

// Serve answers until the questions end, which is io.EOF. An error of check is the answer no, and goes to standard error.
func Serve(questions io.Reader, answers io.Writer, check func(h *Head, data []byte) error) error {
	for {
		var h Head
		if err := binary.Read(questions, binary.NativeEndian, &h); err != nil {
			return err
		}
		data := make([]byte, h.Size)
		if _, err := io.ReadFull(questions, data); err != nil {
			return err
		}
		answer := []byte{1}
		if err := check(&h, data); err != nil {
			fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
			answer[0] = 0
		}
		if _, err := answers.Write(answer); err != nil {
			return err
		}
	}
}
