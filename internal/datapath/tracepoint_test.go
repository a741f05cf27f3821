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
	if err == nil || !Unsupported(err) || !Unfit(err) || !strings.Contains(err.Error(), "tracepoint sock_send_nothing") {
		t.Errorf("tracepoint that there is not: %v", err)
	}
}

func TestKernelThatDoesWrongIsUnfit(t *testing.T) {
	wrong := fmt.Errorf("load: %w", &wrongKernelError{errors.New("the parser is compiled wrongly")})
	if Unsupported(wrong) || !Unfit(wrong) {
		t.Errorf("%v: unsupported %v, unfit %v", wrong, Unsupported(wrong), Unfit(wrong))
	}
	if Unfit(errors.New("no room on the device")) {
		t.Error("any error makes a kernel unfit")
	}
}
