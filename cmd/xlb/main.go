// SPDX-License-Identifier: Apache-2.0

// Command xlb is the layer-7 load balancer without a proxy in the data path: daemon,
// checks, demonstration and queries in one binary, one file per verb.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx, &env{stdout: os.Stdout, stderr: os.Stderr}, envoyArguments(os.Args[0], os.Args[1:]))
	stop()
	os.Exit(code)
}
