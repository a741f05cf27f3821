// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
)

// useSameVersion is the remedy where a daemon does not have a page.
const useSameVersion = "use the xlb of the daemon's version"

// daemonPatience bounds the wait for a daemon of which "xlb check" only supposes that it is there.
const daemonPatience = time.Second

// checkDaemon says what a running daemon has taken off the fast path, what it has refused of its configuration, which capabilities it keeps, and what its delegate does. Empty: nobody said that there is one, and
// there seems to be none.
func checkDaemon(ctx context.Context, address string, named bool) []check.Result {
	if !named {
		short, cancel := context.WithTimeout(ctx, daemonPatience)
		defer cancel()
		ctx = short
	}
	off, err := askRows[admin.Guarded](ctx, address, "/xlb/guards")
	if err != nil && !named {
		return nil
	}
	results := []check.Result{fastPathOf(off, err)}
	if err != nil {
		return results
	}
	origins, err := askRows[admin.Origin](ctx, address, "/xlb/config")
	results = append(results, configurationOf(origins, err))
	capabilities, err := askRows[admin.Capability](ctx, address, admin.CapabilitiesPath)
	results = append(results, capabilitiesOf(capabilities, err))
	delegates, err := askRows[admin.Delegate](ctx, address, admin.DelegatePath)
	return append(results, delegateOf(delegates, err)...)
}

// capabilitiesOf is the result about the capabilities that the daemon keeps, and what there is not without those that it lacks.
func capabilitiesOf(list []admin.Capability, err error) check.Result {
	r := check.Result{Name: "daemon capabilities", Status: check.OK, Detail: "not known"}
	if failed, ok := errors.AsType[*statusError](err); ok && failed.status == http.StatusInternalServerError {
		r.Status, r.Detail = check.Degraded, failed.text
		r.Remedy = "remove what the reason names and start the daemon again, or start it with no others than in docs/operations.md, \"Start\""
		return r
	}
	if err != nil {
		r.Status, r.Detail, r.Remedy = check.Degraded, err.Error(), useSameVersion
		return r
	}
	var kept, lacking []string
	for _, c := range list {
		if c.Held {
			kept = append(kept, c.Name)
			continue
		}
		lacking = append(lacking, fmt.Sprintf("%s (%s)", c.Name, c.Feature))
	}
	if len(kept) > 0 {
		r.Detail = "keeps " + strings.Join(kept, ", ")
	}
	if len(lacking) > 0 {
		r.Status = check.Degraded
		r.Detail += "; lacks " + strings.Join(lacking, ", ")
		r.Remedy = "start the daemon with those whose features you need; see docs/operations.md, \"Start\""
	}
	return r
}

// fastPathOf is the result about what is off the fast path.
func fastPathOf(off []admin.Guarded, err error) check.Result {
	r := check.Result{Name: "running daemon", Status: check.OK, Detail: "nothing is off the fast path"}
	switch {
	case err != nil:
		r.Status, r.Detail, r.Remedy = check.Missing, err.Error(), "name the admin address of a running daemon with --admin"
	case len(off) > 0:
		r.Status, r.Detail = check.Degraded, offText(off)
		r.Remedy = "see docs/operations.md, \"When a guard fires\""
	}
	return r
}

// configurationOf is the result about what the daemon has refused.
func configurationOf(origins []admin.Origin, err error) check.Result {
	r := check.Result{Name: "daemon configuration", Status: check.OK, Detail: "what came last is in force"}
	refused := admin.RefusedOf(origins)
	switch {
	case err != nil:
		r.Status, r.Detail, r.Remedy = check.Degraded, err.Error(), useSameVersion
	case len(refused) > 0:
		r.Status, r.Detail = check.Degraded, refused[0].String()
		if more := len(refused) - 1; more > 0 {
			r.Detail += fmt.Sprintf("; and %d more refused", more)
		}
		r.Remedy = "what was before stays in force; \"xlb get config\" lists what is wrong: correct it, and it is taken"
	}
	return r
}

func askRows[T any](ctx context.Context, address, path string) (list []T, err error) {
	answer, err := askAdmin(ctx, address, path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("admin address %s: the answer is not ours: %w", address, err)
	}
	return list, nil
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
