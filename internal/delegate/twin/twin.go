// SPDX-License-Identifier: Apache-2.0

package twin

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/problem"
)

// Paths in a delegate's working directory. Equal configurations have equal twins, since there are no others in them.
const (
	// BootstrapFile is what Envoy is started with.
	BootstrapFile = "bootstrap.json"
	// Own is the only directory that a delegate may write.
	Own = "own"
	// Copies has the copies of files.
	Copies = "files"
	// Admin is the socket of the admin API.
	Admin = Own + "/admin.sock"
)

// Twin is what a delegate is started with.
type Twin struct {
	// Bootstrap is JSON.
	Bootstrap []byte
	// Files are copies of those that the bootstrap names.
	Files []File
	// Listeners are those at sockets, in the order of the bootstrap.
	Listeners []Listener
	// LeftOut is what the delegate goes without, each "field.path: reason".
	LeftOut []string
}

// File is one in the delegate's working directory.
type File struct {
	// Name is its path there.
	Name string
	Data []byte
}

// Listener is one at a socket.
type Listener struct {
	// Name as in the bootstrap; may be empty.
	Name string
	// Socket is its path in the delegate's working directory.
	Socket string
}

// Make makes the twin of a bootstrap. path names it, and says by its end what it is written in. The error names each field that a delegate cannot be given.
func Make(text []byte, path string) (*Twin, error) {
	problems := problem.NewList()
	root := document.Read(problems, path, text, document.ExpectBootstrap)
	if root == nil {
		return nil, problems.Err(path)
	}
	m := &maker{problems: problems, copies: map[string]string{}}
	tree := m.bootstrap(root)
	if err := problems.Err(path); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	m.twin.Bootstrap = out.Bytes()
	return &m.twin, nil
}

// maker makes one twin.
type maker struct {
	twin     Twin
	problems *problem.List
	// copies has the name of each file's copy by its path.
	copies map[string]string
	// copied is how many bytes they have together.
	copied int
}

// leave notes what the delegate goes without.
func (m *maker) leave(path, reason string) {
	m.twin.LeftOut = append(m.twin.LeftOut, path+": "+reason)
}

// bootstrap is the tree of the twin.
func (m *maker) bootstrap(root map[string]any) map[string]any {
	twin := make(map[string]any, len(root)+1)
	for _, key := range sorted(root) {
		switch name := snake(key); name {
		case "admin":
		case "node":
			twin[key] = root[key]
		case "dynamic_resources", "hds_config", "flags_path":
			m.refuse(key)
		case "static_resources":
			twin[key] = m.resources(key, root[key])
		default:
			twin[key] = m.value(key, name, root[key])
		}
	}
	twin["admin"] = map[string]any{"address": pipe(Admin)}
	return twin
}

// resources are static_resources.
func (m *maker) resources(path string, value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return value // Envoy says what is wrong
	}
	twin := make(map[string]any, len(object))
	for _, key := range sorted(object) {
		at := problem.Field(path, key)
		if list, ok := object[key].([]any); ok && snake(key) == "listeners" {
			twin[key] = m.listeners(at, list)
			continue
		}
		twin[key] = m.value(at, snake(key), object[key])
	}
	return twin
}

func (m *maker) refuse(path string) {
	m.problems.Add(path, "a delegate has what the bootstrap itself says; resources of a control plane, or of other files, are not passed on to it")
}
