// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/metrics"
)

// SayBuild begins a log with what everybody asks who is to help.
func SayBuild(log *slog.Logger, b metrics.Build) {
	log.Info("starting", "version", b.Version, "revision", logging.NonZero(b.Revision), "go", b.Go, "kernel", check.KernelRelease())
}

// LogLevel implements admin.Source.
func (n *Node) LogLevel() slog.Level { return n.o.LogLevel.Level() }

// SetLogLevel implements admin.Source. A line tells of the change unless both levels are above that of the line.
func (n *Node) SetLogLevel(level slog.Level) {
	before := n.o.LogLevel.Level()
	n.o.LogLevel.Set(min(before, level))
	n.log.Info("level of the log is changed", "from", logging.Name(before), "to", logging.Name(level))
	n.o.LogLevel.Set(level)
}
