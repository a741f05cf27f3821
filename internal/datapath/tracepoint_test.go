// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestMissingTracepointIsSaidInWords(t *testing.T) {
	if err := requireTracepoint(sendTracepoint); err != nil {
		t.Errorf("tracepoint of this kernel: %v", err)
	}
	err := requireTracepoint("sock_send_nothing")
	if err == nil || !Unsupported(err) || !FastPathUnsupported(err) || !strings.Contains(err.Error(), "tracepoint sock_send_nothing") {
		t.Errorf("tracepoint that there is not: %v", err)
	}
}

func TestKernelThatDoesWrongIsUnsupported(t *testing.T) {
	wrong := fmt.Errorf("load: %w", &wrongKernelError{errors.New("the parser is compiled wrongly")})
	if Unsupported(wrong) || !FastPathUnsupported(wrong) {
		t.Errorf("%v: unsupported %v, fast path unsupported %v", wrong, Unsupported(wrong), FastPathUnsupported(wrong))
	}
	if FastPathUnsupported(errors.New("no room on the device")) {
		t.Error("any error counts as an unsupported fast path")
	}
}
