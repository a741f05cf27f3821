// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Origin is a row of /xlb/config: where a part of the configuration comes from, and what has become of what came last.
type Origin struct {
	// View is the name of the view that the part is of; empty: the shared one.
	View string `json:"view,omitempty"`
	// Kind is "views" for the file that names them, "bootstrap", a kind of resources as "clusters", "secret" or "certificate"; "configuration" is all of it together.
	Kind string `json:"kind"`
	// Source is "file" or "server"; "all" of the configuration.
	Source string `json:"source"`
	// From is the file's path, or the server's address; of the configuration "clusters that views share" where the row is of those alone.
	From string `json:"from,omitempty"`
	// Name of a secret.
	Name string `json:"name,omitempty"`
	// Version of what is in force: of the configuration as in /config_dump, of the bootstrap the first eight bytes of its SHA-256, else the version_info
	// that came with it.
	Version string `json:"version,omitempty"`
	// Taken is when something was last taken; null: nothing was yet.
	Taken *time.Time `json:"taken,omitempty"`
	// Refused counts how often something came of which not all was taken.
	Refused uint64 `json:"refused"`
	// Refusal says why what came last was not taken, or not all of it; null: it was.
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Refusal is what was wrong with a part of the configuration that came. What was in force before it stays.
type Refusal struct {
	At time.Time `json:"at"`
	// Version of what was refused, where it said one.
	Version  string    `json:"version,omitempty"`
	Problems []Problem `json:"problems"`
	// More counts problems that are not listed.
	More int `json:"more,omitempty"`
}

// Problem is one thing that is wrong.
type Problem struct {
	// Resource it is in, by its name; empty: in the whole.
	Resource string `json:"resource,omitempty"`
	// Path of the field, in the resource or the file; empty where it is not one field.
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// String is a line about it.
func (p *Problem) String() string {
	text := p.Reason
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Resource != "" {
		text = p.Resource + ": " + text
	}
	return text
}

// What names the origin.
func (o *Origin) What() string {
	text := o.Kind
	if o.Name != "" {
		text += " " + o.Name
	}
	if o.From != "" {
		text += " from " + o.From
	}
	return text
}

// Reason is the first problem, with the number of others.
func (r *Refusal) Reason() string {
	if len(r.Problems) == 0 {
		return "refused"
	}
	text := r.Problems[0].String()
	if more := len(r.Problems) - 1 + r.More; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// String is a line about what was refused.
func (o *Origin) String() string {
	if o.Refusal == nil {
		return o.What() + " in force"
	}
	return fmt.Sprintf("%s refused at %s: %s", o.What(), o.Refusal.At.UTC().Format(time.RFC3339), o.Refusal.Reason())
}

// RefusedOf are those of which what came last was not taken.
func RefusedOf(list []Origin) (refused []Origin) {
	for i := range list {
		if list[i].Refusal != nil {
			refused = append(refused, list[i])
		}
	}
	return refused
}

// notInErrorState are the refused ones of which an error_state may not tell: that is of a resource, and a file may hold none.
func notInErrorState(list []Origin) (others []Origin) {
	for _, o := range RefusedOf(list) {
		if o.Source != "server" {
			others = append(others, o)
		}
	}
	return others
}

// refusedText is the lines of /ready for them.
func refusedText(list []Origin) string {
	var b strings.Builder
	refused := RefusedOf(list)
	for i := range refused {
		if i == maxReadyRows {
			fmt.Fprintf(&b, "and %d more; see: xlb get config\n", len(refused)-i)
			break
		}
		b.WriteString(refused[i].String() + "; what was before stays in force\n")
	}
	return b.String()
}

// originRows are the rows of /xlb/config. The version of the whole is made when it is asked for.
func (a *api) originRows() ([]Origin, error) {
	list := append([]Origin{}, a.source.Origins()...)
	for i := range list {
		if o := &list[i]; o.Kind == WholeConfiguration {
			c := a.source.Config()
			o.Version, o.Taken = cmp.Or(o.Version, c.Version), &c.Updated
		}
	}
	return list, nil
}

// WholeConfiguration is the kind of the origin that stands for all of them together.
const WholeConfiguration = "configuration"
