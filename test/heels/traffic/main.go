// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// Ready is the line that a server prints when clients can connect.
const Ready = "ready"

// The roles of a process.
const (
	ServerRole = "server"
	ClientRole = "client"
)

// Main runs a role with its options in JSON, until a signal or the end of the load, and prints the report in JSON.
func Main(ctx context.Context, role, options string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A thread for each connection, which is what bounds a load.
	debug.SetMaxThreads(30_000)
	switch role {
	case ServerRole:
		var o ServerOptions
		if err := json.Unmarshal([]byte(options), &o); err != nil {
			return fmt.Errorf("options: %w", err)
		}
		r, err := Serve(ctx, o, func() { fmt.Fprintln(out, Ready) })
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	case ClientRole:
		var o ClientOptions
		if err := json.Unmarshal([]byte(options), &o); err != nil {
			return fmt.Errorf("options: %w", err)
		}
		r, err := Run(ctx, o)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	return fmt.Errorf("role %q: use %q or %q", role, ServerRole, ClientRole)
}
