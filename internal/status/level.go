// SPDX-License-Identifier: Apache-2.0

package status

import (
	"log/slog"

	"github.com/xlb-project/xlb/internal/logging"
)

// LogLevel implements admin.Source.
func (s *Status) LogLevel() slog.Level { return s.cfg.Level.Level() }

// SetLogLevel implements admin.Source. A line tells of the change unless both levels are above that of the line.
func (s *Status) SetLogLevel(level slog.Level) {
	before := s.cfg.Level.Level()
	s.cfg.Level.Set(min(before, level))
	s.cfg.Logger.Info("level of the log is changed", "from", logging.Name(before), "to", logging.Name(level))
	s.cfg.Level.Set(level)
}
