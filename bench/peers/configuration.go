// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"embed"
	"fmt"
	"path/filepath"
	"text/template"

	"github.com/xlb-project/xlb/bench/cases"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "templates/*.tmpl"))

// File is where a configuration of that name lies. The ending tells XLB and Envoy the format.
func (s Site) File(name string) string { return filepath.Join(s.Dir, name+".yaml") }

// Configuration renders the configuration file of a process.
func (p Process) Configuration(s Site) ([]byte, error) {
	set := p.settings(s)
	set.Name, set.Dir, set.Workers = p.Name, s.Dir, cases.Workers
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, p.Template, set); err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", p.Name, err)
	}
	return text.Bytes(), nil
}
