// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
)

// daemonPatience bounds the wait for a daemon of which "xlb check" only supposes that it is there.
const daemonPatience = time.Second

// checkDaemon says what a running daemon has taken off the fast path. nil: nobody said that there
// is one, and there seems to be none.
func checkDaemon(ctx context.Context, address string, named bool) *check.Result {
	r := &check.Result{Name: "running daemon", Status: check.OK, Detail: "nothing is off the fast path"}
	if !named {
		short, cancel := context.WithTimeout(ctx, daemonPatience)
		defer cancel()
		ctx = short
	}
	off, err := askGuards(ctx, address)
	switch {
	case err != nil && !named:
		return nil
	case err != nil:
		r.Status, r.Detail, r.Remedy = check.Missing, err.Error(), "name the admin address of a running daemon with --admin"
	case len(off) > 0:
		r.Status, r.Detail = check.Degraded, offText(off)
		r.Remedy = "see docs/operations.md, \"When a guard fires\""
	}
	return r
}

func askGuards(ctx context.Context, address string) (off []admin.Guarded, err error) {
	answer, err := askAdmin(ctx, address, "/xlb/guards")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, &off); err != nil {
		return nil, fmt.Errorf("admin address %s: the answer is not ours: %w", address, err)
	}
	return off, nil
}

// offText names what is off the fast path, and says why of the first, which is the largest.
func offText(off []admin.Guarded) string {
	const most = 3
	names := make([]string, 0, most)
	for i := range off[:min(len(off), most)] {
		names = append(names, off[i].What())
	}
	if more := len(off) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("off the fast path: %s: %s", strings.Join(names, ", "), off[0].Why)
}
