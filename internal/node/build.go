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
