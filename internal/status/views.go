// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// views are the names of all views but the shared one, sorted: those that there are to be, and those that the configuration has listeners or clusters of.
func (s *Status) views(cfg *model.Config) []string {
	names := cfg.Views()
	if s.cfg.Views != nil {
		names = append(names, s.cfg.Views()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// viewName is the name of the view with a number; empty for the shared one.
func (s *Status) viewName(number uint32) string {
	if number == 0 || s.cfg.ViewName == nil {
		return ""
	}
	return cmp.Or(s.cfg.ViewName(number), fmt.Sprintf("number %d", number))
}
