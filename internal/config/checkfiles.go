// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// ErrFromFile refuses a resource in a file that names one which the control plane has: nobody would ask for that.
var ErrFromFile = errors.New("a resource of a file refers to one of the control plane; use path_config_source in it, or have the control plane send both")

// CheckFiles reads the files that the bootstrap names (path_config_source), those that they name, and so on, and the files of secrets of all clusters. It
// returns the configuration that a daemon would begin with, as far as no control plane sends it. The error joins the problems of all files, one line
// each, with the name of the file and the path of the field in front.
func (b *Bootstrap) CheckFiles() (*model.Config, error) {
	if b.whole != nil {
		return b.whole, checkSecrets(b.whole)
	}
	read := map[File][]Named{}
	var problems []error
	for {
		b.cache = nil // what was not read yet is to be looked up again
		cfg, err := b.Assemble(b.Join(Resources{}, read))
		unread := slices.DeleteFunc(b.Files(), func(f File) bool {
			_, known := read[f]
			return known
		})
		if len(unread) == 0 {
			return cfg, errors.Join(append(problems, b.inFiles(err), checkSecrets(cfg))...)
		}
		for _, f := range unread {
			list, err := b.checkFile(f)
			read[f] = list
			problems = append(problems, err)
		}
	}
}

// checkFile reads a file and checks each resource in it. It returns those that can be served.
func (b *Bootstrap) checkFile(f File) ([]Named, error) {
	text, err := ReadText(f.Path)
	if err != nil {
		return nil, b.unread(f, err)
	}
	list, err := ParseFile(f, text)
	if err != nil {
		return nil, err
	}
	var good []Named
	var problems []error
	for i, one := range list {
		needs, err := b.CheckResource(f.Kind, one.Name, one.Body)
		if err == nil && len(needs.References) > 0 {
			err = ErrFromFile
		}
		if err == nil {
			good = append(good, one)
		}
		for _, e := range parts(err) {
			problems = append(problems, fmt.Errorf("%s: %w", f.Path, below(problem.At("resources", i), e)))
		}
	}
	return good, errors.Join(problems...)
}

// unread says which field names a file that cannot be read: of the bootstrap; or, where another file does, what it should hold.
func (b *Bootstrap) unread(f File, err error) error {
	const remedy = "name a readable file, or make it before you check"
	switch f.Kind {
	case Clusters:
		return fmt.Errorf("%s: dynamic_resources.cds_config.path_config_source.path: %w; %s", b.name, err, remedy)
	case Listeners:
		return fmt.Errorf("%s: dynamic_resources.lds_config.path_config_source.path: %w; %s", b.name, err, remedy)
	default:
		return fmt.Errorf("path_config_source.path of %s: %w; %s", f.Kind, err, remedy)
	}
}

// parts are what errors.Join has joined.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// below puts the path of a resource in front of that of a field in it.
func below(path string, err error) error {
	var field *FieldError
	if errors.As(err, &field) && field.Path != "" {
		return &FieldError{Path: problem.Field(path, field.Path), Reason: field.Reason}
	}
	return &FieldError{Path: path, Reason: err.Error()}
}

// inFiles names the file for each problem of a configuration that has been assembled: that of the resource, or the bootstrap.
func (b *Bootstrap) inFiles(err error) error {
	var problems []error
	for _, e := range parts(err) {
		file := b.name
		for _, root := range b.Dynamic.RootFiles() {
			if strings.HasPrefix(e.Error(), root.Kind.String()+"[") {
				file = root.Path
			}
		}
		problems = append(problems, fmt.Errorf("%s: %w", file, e))
	}
	return errors.Join(problems...)
}

// checkSecrets reads the files of secrets of all clusters, each secret once.
func checkSecrets(cfg *model.Config) error {
	var problems []error
	seen := map[model.SecretSource]bool{}
	for _, c := range cfg.Clusters {
		for _, socket := range c.Sockets {
			for _, secret := range socket.Secrets() {
				if secret.File == "" || seen[*secret] {
					continue
				}
				seen[*secret] = true
				if _, err := ReadSecret(secret.File, secret.Name); err != nil {
					problems = append(problems, ofSecret(secret, err))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// ofSecret names the file and the secret in each line, unless the line does.
func ofSecret(secret *model.SecretSource, err error) error {
	var problems []error
	for _, e := range parts(err) {
		if !strings.Contains(e.Error(), secret.File) {
			e = fmt.Errorf("%s: secret %q: %w", secret.File, secret.Name, e)
		}
		problems = append(problems, e)
	}
	return errors.Join(problems...)
}
