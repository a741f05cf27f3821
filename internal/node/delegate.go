// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"

	"github.com/xlb-project/xlb/internal/delegate"
	"github.com/xlb-project/xlb/internal/source"
)

// Delegate says which Envoy runs beside the daemon.
type Delegate struct {
	// Program is a path of Envoy, or a name that is looked for in PATH.
	Program string
	// Optional: the daemon does without it where it cannot be had.
	Optional bool
	Limits   delegate.Limits
}

// beginDelegate makes the delegate, if the options name one. It runs once the bootstrap is in force.
func (n *Node) beginDelegate(ctx context.Context, b *source.Bootstrap) error {
	if n.o.Delegate == nil {
		return nil
	}
	m, err := delegate.New(ctx, delegate.Options{Program: n.o.Delegate.Program, Limits: n.o.Delegate.Limits, Drain: n.o.DrainTime, Logger: n.log, Spawn: n.spawn})
	if err == nil {
		n.delegate = m
		err = m.Check(b.Text(), n.o.ConfigPath)
	}
	if err == nil {
		return nil
	}
	n.endDelegate()
	n.delegate = nil
	if !n.o.Delegate.Optional {
		return &delegateError{err}
	}
	n.log.Warn("the daemon goes without a delegate", "err", err)
	return nil
}

// delegateError says why a delegate that the options name cannot be had.
type delegateError struct{ err error }

func (e *delegateError) Error() string { return "--delegate: " + e.err.Error() }
func (e *delegateError) Unwrap() error { return e.err }

// tookBootstrap has the delegate run with a bootstrap.
func (n *Node) tookBootstrap(text []byte) {
	if n.delegate != nil {
		n.delegate.Apply(text, n.o.ConfigPath)
	}
}

// delegateStatus is what is to be seen of the delegate; nil: there is no delegate.
func (n *Node) delegateStatus() *delegate.Status {
	if n.delegate == nil {
		return nil
	}
	s := n.delegate.Status()
	return &s
}

// endDelegate ends the delegate, once its connections have ended, and removes what it had.
func (n *Node) endDelegate() {
	if n.delegate == nil {
		return
	}
	if err := n.delegate.Close(); err != nil {
		n.log.Warn("something of the delegate is left", "err", err)
	}
}
