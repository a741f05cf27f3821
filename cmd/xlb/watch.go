// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// leastInterval keeps a watcher from taking the daemon's time: each look makes it read all that it counts.
const leastInterval = 100 * time.Millisecond

// watching are the flags of a verb that may show the same again and again.
type watching struct {
	on       bool
	interval time.Duration
}

func watchFlags(c *cobra.Command) *watching {
	w := &watching{}
	c.Flags().BoolVarP(&w.on, "watch", "w", false, "show it again and again, until interrupted")
	c.Flags().DurationVar(&w.interval, "interval", 2*time.Second, "with --watch: how long to wait between two answers, at least "+leastInterval.String())
	return w
}

func (w *watching) check(c *cobra.Command) error {
	switch {
	case !w.on && c.Flags().Changed("interval"):
		return fmt.Errorf("--interval: is for --watch; add that, or leave it out")
	case w.interval < leastInterval:
		return fmt.Errorf("--interval %s: want %s or more", w.interval, leastInterval)
	}
	return nil
}

// repeat shows something until ctx ends, which is no error. The first time has to succeed: a wrong address does not become right. What fails later is told
// of, once for each kind of failure in a row: a daemon may be replaced meanwhile.
func (w *watching) repeat(ctx context.Context, e *env, output format, show func(ctx context.Context, e *env, line bool) error) error {
	next := time.NewTicker(w.interval)
	defer next.Stop()
	failed := ""
	for first := true; ; first = false {
		// What cannot be shown whole is not shown.
		var page bytes.Buffer
		err := show(ctx, &env{stdout: &page, stderr: e.stderr}, true)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && first:
			return err
		case err != nil && err.Error() != failed:
			failed = err.Error()
			printError(e.stderr, err)
		case err == nil:
			failed = ""
			if err := writePage(e.stdout, output, first, page.Bytes()); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

// writePage writes an answer. Text has its time above it, and an empty line before it if others came before.
func writePage(w io.Writer, output format, first bool, page []byte) error {
	heading := ""
	if output == formatText {
		heading = time.Now().UTC().Format(time.RFC3339) + "\n"
		if !first {
			heading = "\n" + heading
		}
	}
	_, err := fmt.Fprintf(w, "%s%s", heading, page)
	return err
}

// writeLine writes JSON in one line, so that whoever reads it knows where an answer ends (JSON Lines).
func writeLine(w io.Writer, answer []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, answer); err != nil {
		return fmt.Errorf("the daemon's answer is not ours: %w; use the xlb of the daemon's version", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}
