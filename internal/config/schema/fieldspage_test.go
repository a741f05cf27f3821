// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xlb-project/xlb/test/golden"
)

// fieldsIntroduction begins docs/fields.md.
const fieldsIntroduction = `# Fields

Each message of Envoy's v3 API that XLB reads, and what becomes of each of its fields. The page is written from the table by which
configurations are checked (` + "`go test ./internal/config/schema -run FieldsPage -update`" + `), so no field is missing. How a field is served, and where that
differs from Envoy, say [limits.md](limits.md#routes), [balancing.md](balancing.md), [resilience.md](resilience.md) and [sidecar.md](sidecar.md).

| | |
|---|---|
| **read** | means here what it means in Envoy. A value of it may still be refused; the message then says which are not |
| **some values** | other values are refused, with the remedy that stands here |
| **no effect** | accepted, because it changes nothing about traffic, here as in Envoy; why, stands here, and [tests](../test/noeffect/rows.go) prove it beside Envoy. *Noted*: ` + "`xlb get notes`" + ` lists it |
| **passed over** | accepted, though it changes what Envoy does; what XLB does, stands here. *Noted* as above |
| **refused** | the configuration is refused, with the path of the field, the reason and the remedy that stand here |
| **from a control plane** | what becomes of the field in a resource that a control plane sends |
| **with ` + "`--envoy-headers`" + `** | what becomes of the field with that option |

A message that is not here, as a filter of another type, is refused whole, by the name of its type; [what Istio sends beside](control-plane.md#istio) is the exception.
`

// fieldsSections are the parts of the page, each with the beginnings of the names of its messages.
var fieldsSections = []struct {
	title    string
	prefixes []string
}{
	{"Bootstrap", []string{"envoy.config.bootstrap.", "envoy.config.overload.", "envoy.extensions.resource_monitors."}},
	{"Listeners", []string{"envoy.config.listener.", "envoy.extensions.filters.listener.", "envoy.extensions.filters.network.", "envoy.extensions.request_id."}},
	{"Routes", []string{"envoy.config.route."}},
	{"HTTP filters", []string{"envoy.extensions.filters.http.", "envoy.extensions.filters.common.", "envoy.extensions.http."}},
	{"Clusters", []string{
		"envoy.config.cluster.", "envoy.extensions.clusters.", "envoy.extensions.upstreams.", "envoy.extensions.load_balancing_policies.",
		"envoy.extensions.network.dns_resolver.", "envoy.extensions.retry.",
	}},
	{"Endpoints", []string{"envoy.config.endpoint."}},
	{"TLS to endpoints", []string{"envoy.extensions.transport_sockets."}},
	{"Messages of several of these", []string{"envoy."}},
}

func TestFieldsPageSaysWhatBecomesOfEachField(t *testing.T) {
	golden.Compare(t, "../../../docs/fields.md", fieldsPage(t))
}

func fieldsPage(t *testing.T) string {
	t.Helper()
	var page strings.Builder
	page.WriteString(fieldsIntroduction)
	left := slices.Sorted(maps.Keys(supported.merge(dynamicFields)))
	for _, section := range fieldsSections {
		fmt.Fprintf(&page, "\n## %s\n", section.title)
		left = slices.DeleteFunc(left, func(name protoreflect.FullName) bool {
			if !slices.ContainsFunc(section.prefixes, func(p string) bool { return strings.HasPrefix(string(name), p) }) {
				return false
			}
			writeFields(t, &page, name, resourceFate)
			return true
		})
	}
	if len(left) > 0 {
		t.Errorf("these messages stand in no section: %q", left)
	}
	page.WriteString("\n## Where secrets come from\n\nIn `sds_config` of `UpstreamTlsContext` these fields are treated otherwise than in other sources.\n")
	writeOthers(t, &page, secretMembers)
	page.WriteString("\n## The control plane's cluster\n\nThe static cluster that `ads_config` names is not balanced: its endpoints are the servers that are asked. Of it these fields are treated otherwise than in other clusters.\n")
	writeOthers(t, &page, controlFields)
	page.WriteString("\n## The admin API\n\nBelow `admin` of the bootstrap these fields are treated otherwise than in listeners and endpoints.\n")
	writeOthers(t, &page, adminFields)
	page.WriteString("\n## The bootstrap of a view\n\nIn the bootstrap of a view, and in what files and servers have for it, these fields are refused. Its `node` is the view's own: servers know the view by it.\n")
	writeOthers(t, &page, viewFields)
	return page.String()
}

// writeOthers writes the fields of a table that counts in one place only.
func writeOthers(t *testing.T, page *strings.Builder, table fieldTable) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(table)) {
		writeFields(t, page, name, func(fd protoreflect.FieldDescriptor) string {
			if r, ok := table[name][fd.Name()]; ok {
				return fate(r)
			}
			return ""
		})
	}
}

// resourceFate says what becomes of a field, in a file and otherwise.
func resourceFate(fd protoreflect.FieldDescriptor) string {
	inFile, sent := supported.ruleOf(fd), dynamicFields.ruleOf(fd)
	text := fate(inFile)
	if fate(sent) != text {
		text += ". From a control plane: " + fate(sent)
	}
	if inFile.envoyHeaders || sent.envoyHeaders {
		text += ". With `--envoy-headers`: read"
	}
	return text
}

// fate says what a rule makes of a field.
func fate(r rule) string {
	reason := strings.TrimPrefix(r.reason, "not supported: ")
	switch r.use {
	case translated:
		if r.noted {
			return "read; noted: " + r.notice()
		}
		return "read"
	case limited:
		if r.noted {
			return "some values; noted: " + r.notice() + ". Others: " + reason
		}
		return "some values: " + reason
	case cosmetic:
		what := "no effect"
		if r.differs {
			what = "passed over"
		}
		if r.noted {
			return what + ", noted: " + r.notice()
		}
		return what + ": " + reason
	default:
		return "refused: " + reason
	}
}

// fates are the beginnings of what fate says, in the order of a table.
var fates = []string{"read", "some values", "no effect", "passed over", "refused"}

// writeFields writes the table of one message: fields of which the same is to be said share a row. Fields of which nothing is are left out.
func writeFields(t *testing.T, page *strings.Builder, name protoreflect.FullName, say func(protoreflect.FieldDescriptor) string) {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	byFate := map[string][]string{}
	fields := d.(protoreflect.MessageDescriptor).Fields()
	for i := range fields.Len() {
		said := say(fields.Get(i))
		if said == "" {
			continue
		}
		if byFate[said] == nil {
			order = append(order, said)
		}
		byFate[said] = append(byFate[said], "`"+string(fields.Get(i).Name())+"`")
	}
	if len(order) == 0 {
		return
	}
	slices.SortStableFunc(order, func(a, b string) int { return rank(a) - rank(b) })
	fmt.Fprintf(page, "\n### %s\n\n`%s`\n\n| field | |\n|---|---|\n", shortName(name), name)
	for _, said := range order {
		fmt.Fprintf(page, "| %s | %s |\n", strings.Join(byFate[said], ", "), cells.Replace(said))
	}
}

func rank(said string) int {
	return slices.IndexFunc(fates, func(f string) bool { return strings.HasPrefix(said, f) })
}

// cells keeps what a reason says from ending a cell, or from being taken for markup.
var cells = strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;")

// shortName is the name of a message without its package.
func shortName(name protoreflect.FullName) string {
	_, short, _ := strings.Cut(string(name), ".v3.")
	return short
}
