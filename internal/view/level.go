// SPDX-License-Identifier: Apache-2.0

package view

import (
	"log/slog"

	"github.com/xlb-project/xlb/internal/logging"
)

// LogLevel implements admin.Source.
func (v *View) LogLevel() slog.Level { return v.cfg.Level.Level() }

// SetLogLevel implements admin.Source. A line tells of the change unless both levels are above that of the line.
func (v *View) SetLogLevel(level slog.Level) {
	before := v.cfg.Level.Level()
	v.cfg.Level.Set(min(before, level))
	v.cfg.Logger.Info("level of the log is changed", "from", logging.Name(before), "to", logging.Name(level))
	v.cfg.Level.Set(level)
}
