// SPDX-License-Identifier: Apache-2.0

package delegate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/delegate/twin"
)

// TestMain has this program be the Envoy of the tests, too: what it does its bootstrap says, as the node's identifier.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--version" {
		fmt.Println("envoy  version: 0123456789abcdef/1.40.0/Clean/RELEASE/BoringSSL")
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "-c" {
		if err := fakeEnvoy(os.Args[2]); err != nil {
			fmt.Fprintf(os.Stderr, "[critical] %s\n", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// What a fake Envoy does, by its node's identifier.
const (
	serves  = "serves"
	refuses = "refuses"   // ends before it is ready, with a reason
	crashes = "crashes"   // ends by a signal before it is ready
	silent  = "silent"    // answers once, then never again
	slow    = "is-slow"   // is never ready
	ignores = "ignores"   // ends by no request
	noisy   = "is-noisy-" // writes many lines
)

// busyFile is in the directory of a fake Envoy while it has a connection.
const busyFile = twin.Own + "/busy"

func fakeEnvoy(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b struct {
		Node             struct{ ID string }
		Static_resources struct { //nolint:revive // As Envoy has it.
			Listeners []struct {
				Address struct{ Pipe struct{ Path string } }
			}
		}
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	does := strings.TrimRight(b.Node.ID, "0123456789") // which make another configuration
	switch does {
	case refuses:
		return errors.New("cannot be so: the words of Envoy")
	case crashes:
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case noisy:
		for i := range 3 * lineBurst {
			fmt.Printf("[info] line %d\n", i)
		}
	}
	for _, l := range b.Static_resources.Listeners {
		if _, err := net.Listen("unix", l.Address.Pipe.Path); err != nil {
			return err
		}
	}
	return fakeAdmin(does)
}

// fakeAdmin serves the admin API until a request ends it.
func fakeAdmin(does string) error {
	signal.Ignore(syscall.SIGTERM)
	listener, err := net.Listen("unix", twin.Admin)
	if err != nil {
		return err
	}
	answered := 0
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // A test's.
		switch r.URL.Path {
		case "/ready":
			if answered++; does == silent && answered > 1 {
				time.Sleep(time.Hour)
			}
			if does == slow {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/stats":
			_, err := os.Stat(busyFile)
			n := 0
			if err == nil {
				n = 1
			}
			fmt.Fprintf(w, "%s: %d\n", connections, n)
		case "/quitquitquit":
			if does != ignores {
				os.Exit(0)
			}
		default:
			_, _ = io.WriteString(w, "?")
		}
	}))
}
