// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// pathFlags say of which paths, and names of fields, the kernel cannot know what a table makes of them, so that it hands them over. All
// others stay as they are: the kernel reads nothing in a path but RFC 3986's characters, and normalize_path changes
// only "%" and dots among these.
func pathFlags(rt *model.RouteTable) (flags maps.TableFlags) {
	rule := rt.Path
	if rule.Normalize {
		flags |= maps.TableEscapes | maps.TableDots
	}
	if rule.MergeSlashes {
		flags |= maps.TableSlashes
	}
	if rule.EscapedSlashes != rewrite.KeepSlashes {
		flags |= maps.TableEscapes
	}
	if rt.IgnorePathParameters {
		flags |= maps.TableParameters
	}
	if rt.Underscores != rewrite.PassUnderscores {
		flags |= maps.TableUnderscores
	}
	return flags
}
