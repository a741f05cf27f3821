// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
)

var (
	errVerifier = fmt.Errorf("load kernel programs: program xlb_request: %w",
		&ebpf.VerifierError{Cause: syscall.EACCES, Log: []string{"0: (95) exit", "R0 !read_ok"}})
	errFeature = fmt.Errorf("attach sock_release: %w", ebpf.ErrNotSupported)
	errDenied  = fmt.Errorf("create socket map: %w (MEMLOCK may be too low, consider rlimit.RemoveMemlock)", syscall.EPERM)
	errClosed  = &fs.PathError{Op: "open", Path: "envoy.yaml", Err: syscall.EACCES}
	errPort    = &admin.ListenError{Address: "127.0.0.1:80", Err: syscall.EACCES}
)

func TestKernelsRefusalIsExplainedInOneLine(t *testing.T) {
	const (
		full, none = true, false
		on, off    = true, false
	)
	release := check.KernelRelease()
	tests := []struct {
		name                 string
		err                  error
		fastPath, privileged bool
		says                 []string
	}{
		{"no privileges", errDenied, on, none, []string{"root (CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)", "create socket map: operation not permitted; see: xlb check"}},
		{"privileges that do not help", errDenied, on, full, []string{"root (CAP_BPF"}},
		{"a verifier that is stricter without privileges", errVerifier, on, none, []string{"root (CAP_BPF", "xlb_request"}},
		{"two errors", errors.Join(errDenied, errors.New("close")), on, none, []string{"root", "close"}},
		{"verifier", errVerifier, on, full, []string{"kernel " + release + " lacks what the fast path needs", "xlb_request", "R0 !read_ok", "--fast-path=off", "xlb check"}},
		{"feature", errFeature, on, full, []string{"kernel " + release, "attach sock_release: not supported", "--fast-path=off", "xlb check"}},
		{"too few descriptors", fmt.Errorf("create socket map: %w", syscall.EMFILE), on, full, []string{"too few descriptors", "create socket map", "ulimit -n", "LimitNOFILE"}},
		{"too few descriptors, not wrapped", errors.New("copy descriptor: " + syscall.EMFILE.Error()), on, full, []string{"too few descriptors", "ulimit -n"}},
		{"too little memory", fmt.Errorf("load kernel programs: map psocks: %w", syscall.ENOMEM), on, full, []string{"too little memory", "map psocks", "memory.max", "128 MiB"}},
		{"too little memory for the verifier", &ebpf.VerifierError{Cause: syscall.ENOMEM}, on, full, []string{"too little memory", "memory.max"}},
		{"feature without the fast path", errFeature, off, full, []string{"kernel " + release + " lacks what XLB needs", "boot another", "xlb check"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := explained(tt.err, tt.fastPath, tt.privileged).Error()
			for _, s := range tt.says {
				if !strings.Contains(got, s) {
					t.Errorf("%q is not in it: %s", s, got)
				}
			}
			if strings.ContainsAny(got, "\n\t") || strings.Contains(got, "MEMLOCK") {
				t.Errorf("not one clear line: %q", got)
			}
			if suggests := strings.Contains(got, "--fast-path"); suggests && !tt.fastPath {
				t.Errorf("suggests what is so already: %s", got)
			}
		})
	}
}

func TestOtherErrorsOfTheStartExplainThemselves(t *testing.T) {
	for _, err := range []error{errClosed, errPort, errors.New("configuration is empty")} {
		wrapped := fmt.Errorf("start: %w", err)
		if got := explained(wrapped, true, false); got.Error() != wrapped.Error() || !errors.Is(got, err) {
			t.Errorf("got %v, want %v", got, wrapped)
		}
	}
}

func TestVerifiersLogIsGivenToThoseWhoDebug(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		t.Run(level.String(), func(t *testing.T) {
			var out bytes.Buffer
			logDetail(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), errVerifier)
			if got, want := strings.Contains(out.String(), "(95) exit"), level == slog.LevelDebug; got != want {
				t.Errorf("whole log: got %v, want %v: %s", got, want, out.String())
			}
		})
	}
}
