// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"path/filepath"
	"testing"
)

// View is a configuration for some of the workloads.
type View struct {
	Name string
	// Select are its selectors, as in a file of views.
	Select []map[string]any
	// Config has listeners, clusters and fields of the view's bootstrap.
	Config Config
	// ForEach and Node are its for_each and node; nil: it has none.
	ForEach []string
	Node    map[string]any
}

// writeViews writes the files of views, and returns the arguments that name them.
func (b *Balancer) writeViews(t testing.TB, list []View) (arguments []string) {
	t.Helper()
	if list == nil {
		return nil
	}
	for _, v := range list {
		b.ReplaceView(t, v.Name, v.Config)
	}
	b.ReplaceViews(t, list)
	return []string{"--views", b.viewsFile()}
}

// ReplaceViews changes the file of views, and leaves it to the balancer to notice. The files of the views stay as they are.
func (b *Balancer) ReplaceViews(t testing.TB, list []View) {
	t.Helper()
	all := []any{}
	for _, v := range list {
		one := object{"name": v.Name, "config": filepath.Base(b.viewFile(v.Name)), "select": v.Select}
		if v.ForEach != nil {
			one["for_each"] = v.ForEach
		}
		if v.Node != nil {
			one["node"] = v.Node
		}
		all = append(all, one)
	}
	b.replace(t, b.viewsFile(), toYAML(t, object{"views": all}))
}

func (b *Balancer) viewsFile() string { return filepath.Join(b.dir, "views.yaml") }

// ReplaceView changes the file of a view, and leaves it to the balancer to notice.
func (b *Balancer) ReplaceView(t testing.TB, name string, config Config) {
	t.Helper()
	whole := config.bootstrap(b.Admin, false)
	delete(whole, "admin")
	b.replace(t, b.viewFile(name), toYAML(t, whole))
}

func (b *Balancer) viewFile(name string) string { return filepath.Join(b.dir, "view-"+name+".yaml") }
