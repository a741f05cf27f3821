// SPDX-License-Identifier: Apache-2.0

package views

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

const (
	// maxSize bounds a file of views, in bytes.
	maxSize = 1 << 20
	// maxViews and maxSelectors bound the views of a file, and the selectors of a view.
	maxViews     = 255
	maxSelectors = 1024
)

// shared is what the configuration of workloads without a view is called; no view may be.
const shared = "shared"

// viewName is a label of RFC 1123.
var viewName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// File is a checked file of views.
type File struct {
	// Path is where it was read, Version what sha256sum of its text begins with.
	Path, Version string
	// Views are in the order of the file: the first that selects a workload is its view.
	Views []View
}

// View is a configuration for some of the workloads.
type View struct {
	// View has the name, and as its number the position among the views of the file that are no templates, from 1, until a caller assigns another one. A template,
	// and what it has made, has none.
	model.View
	// Config is the file of an Envoy bootstrap: absolute, or relative to where the path of the file of views is.
	Config string
	// Node goes before what the bootstrap says of the node. The zero value says nothing; that of a template is not known.
	Node config.NodeName
	// Select are not empty, but in a view that a template has made. Any one of them selects.
	Select []Selector
	// ForEach names the values by which a template tells its views apart; empty: it is one view.
	ForEach []string

	// node is that of a template, whose values are not known.
	node *nodeText
	// values are those of a view that a template has made, in the order of the template's ForEach.
	values []string
}

// HasSourcesOf reports whether a view has its configuration from where another one has it.
func (v *View) HasSourcesOf(other *View) bool {
	return v.Config == other.Config && v.Node.IsAs(other.Node)
}

// Read reads the file at path. See Parse for the errors of its content.
func Read(path string) (*File, error) {
	text, err := ReadText(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// ReadText reads the text of the file at path, and no more of it than what is certainly too long.
func ReadText(path string) ([]byte, error) {
	text, err := files.Begin(path, maxSize+1)
	if err != nil {
		return nil, fmt.Errorf("read views: %w; name a readable file of views", err)
	}
	return text, nil
}

// Parse reads a file of views at path, YAML or JSON as a bootstrap is. The error joins all problems of the file in a stable order, one line each and each with
// the path in front; errors.As finds a *problem.FieldError in it.
func Parse(path string, text []byte) (*File, error) {
	p := problem.NewList()
	if len(text) > maxSize {
		p.Add("", "longer than %d bytes: divide it among several daemons, or select by less", maxSize)
		return nil, p.Err(path)
	}
	f := &File{Path: path, Version: version(text)}
	if root := document.Read(p, path, text, "expected a file of views: a mapping with views, which may be []"); root != nil {
		f.Views = views(mapping(p, "", root, "views"), filepath.Dir(path))
	}
	if err := p.Err(path); err != nil {
		return nil, err
	}
	return f, nil
}

func version(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

func views(root fields, dir string) (all []View) {
	seen, nodes, last := map[string]bool{}, map[identity]string{}, uint32(0)
	root.list("views", "the views, or [] where all workloads see the shared configuration", maxViews, func(path string, value any) {
		f := mapping(root.problems, path, value, "name", "config", "select", "for_each", "node")
		v := view(f, dir, seen)
		checkNode(f, &v, nodes)
		if !v.IsTemplate() {
			last++
			v.Number = last
		}
		all = append(all, v)
	})
	return all
}

// identity is what a control plane knows a view by: the file that names the server, and the ID that the view has there.
type identity struct{ config, id string }

// checkNode refuses a view that FILE gives the ID of another one with the same bootstrap, and so with the same control plane. Two streams of one node are allowed
// there, but a server may have the same for both (xDS, "node"): what else of the node differs may come to nothing. seen has the names of the views before. The ID
// of a bootstrap is one for all views that have it, which is what its user says. Two paths are one file by their text alone, once they are absolute: a symbolic link
// is another file, since it may lead to another one by the time that it is read.
func checkNode(f fields, v *View, seen map[identity]string) {
	if v.IsTemplate() || v.Node.ID == "" || v.Config == "" {
		return
	}
	is := identity{absolute(v.Config), v.Node.ID}
	if other, isSeen := seen[is]; isSeen {
		f.problems.Add(f.at("node")+".id", "view %s has this id, too, and the same config: the control plane cannot tell the two apart; give each an id of its own, "+
			"or put the selectors of both into one", other)
		return
	}
	seen[is] = v.Name
}

// absolute is the path of a file by which it is compared with others. Without a working directory a relative one stays so.
func absolute(file string) string {
	path, err := filepath.Abs(file)
	if err != nil {
		return filepath.Clean(file)
	}
	return path
}

func view(f fields, dir string, seen map[string]bool) View {
	v := View{View: model.View{Name: name(f, seen)}, Config: configFile(f, dir), Select: selectors(f), ForEach: forEach(f)}
	v.node = node(f, v.ForEach)
	checkTemplate(f, &v)
	if !v.IsTemplate() {
		v.Node, v.node = v.node.of(constant), nil
	}
	return v
}

func name(f fields, seen map[string]bool) string {
	const rule = "want 1 to 63 lower-case letters, digits and -, a letter or digit first and last, as in shop-web"
	text, ok := f.requiredText("name", rule)
	switch {
	case !ok:
	case !viewName.MatchString(text):
		f.add("name", rule)
	case text == shared:
		f.add("name", "%s is the configuration of workloads that have no view: choose another name", shared)
	case seen[text]:
		f.add("name", "another view is called %s: choose another name, or put the selectors of both into one", text)
	}
	seen[text] = true
	return text
}

func configFile(f fields, dir string) string {
	file, ok := f.requiredText("config", "want the file of an Envoy bootstrap, as in views/shop.yaml")
	if !ok || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

func selectors(f fields) (all []Selector) {
	list := f.list("select", "the workloads that have the view, as in [{namespace: shop}]", maxSelectors, func(path string, value any) {
		all = append(all, selector(f.problems, path, value))
	})
	if list != nil && len(list) == 0 {
		f.add("select", "selects no workload: name one at least, as in [{namespace: shop}], or remove the view")
	}
	return all
}
