// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
)

// bootstraps are the bootstraps in a tree, by their paths from its root, in order.
func bootstraps(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil || !isBootstrap(text) {
			return err
		}
		path, err := filepath.Rel(root, name)
		found = append(found, path)
		return err
	})
	return found, err
}

// isBootstrap reports whether a file says what a bootstrap says. What is no YAML, as a template, is none.
func isBootstrap(text []byte) bool {
	var keys map[string]yaml.Node
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return false
	}
	_, static := keys["static_resources"]
	_, dynamic := keys["dynamic_resources"]
	return static || dynamic
}
