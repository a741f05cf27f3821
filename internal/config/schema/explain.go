// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/problem"
)

// ExplainBootstrap reports what can't be decoded in the tree of a bootstrap, each value by its path, and removes it, until the rest decodes. The
// tree has been respelt.
func ExplainBootstrap(p *problem.List, root map[string]any, o Options) {
	e := &explainer{p: p, options: o, control: controlOf(root)}
	e.message((&bootstrapv3.Bootstrap{}).ProtoReflect().Descriptor(), root, "", false)
}

// ExplainResponse is ExplainBootstrap for what a DiscoveryResponse says beside its resources. secret: values are not quoted, since private keys
// may be among them.
func ExplainResponse(p *problem.List, root map[string]any, secret bool) {
	e := &explainer{p: p, secret: secret}
	e.message((&discoveryv3.DiscoveryResponse{}).ProtoReflect().Descriptor(), root, "", true)
}

// ExplainResource is ExplainBootstrap for one resource with its @type.
func ExplainResource(p *problem.List, object map[string]any, path string) {
	(&explainer{p: p, table: dynamicFields}).any(object, path, false)
}

// explainer finds what protojson cannot decode in a JSON tree. It reports each
// place by its path and removes it from the tree, until the rest decodes.
type explainer struct {
	p       *problem.List
	options Options
	// control is the cluster of the control plane, for which another table applies.
	control string
	table   fieldTable
	// service: it is in a cluster that is not balanced. secret: where it is there may be private keys, and nothing is quoted.
	service, secret bool
}

// message checks the members of one object against its message type. Inside a
// cosmetic field (free) the table of supported fields does not apply.
func (e *explainer) message(desc protoreflect.MessageDescriptor, object map[string]any, path string, free bool) {
	if before := e.secret; !before && desc.ParentFile().Package() == secretPackage {
		e.secret = true
		defer func() { e.secret = before }()
	}
	seen := map[protoreflect.Descriptor]string{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		value := object[key]
		if value == nil { // JSON null is an absent field
			continue
		}
		fd := document.FieldByKey(desc, key)
		if fd == nil && key == "<<" {
			e.drop(object, key, path, "has a merge key (<<), which Envoy does not know; write the fields out, or use an alias for a whole value")
			continue
		}
		if fd == nil && !document.IsName(key) {
			e.drop(object, key, path, "has a member whose name is that of no field of %s; check what is indented below it", desc.FullName())
			continue
		}
		if fd == nil {
			e.drop(object, key, problem.Field(path, key), "unknown field: %s has no such field; check its spelling and its place",
				desc.FullName())
			continue
		}
		fieldPath := problem.Field(path, string(fd.Name()))
		if other, twice := seen[identity(fd)]; twice {
			e.drop(object, key, fieldPath, "set together with %s: only one of them may be set", other)
			continue
		}
		seen[identity(fd)] = key
		rule := e.table.ruleOf(fd)
		if rule.envoyHeaders && e.options.EnvoyHeaders {
			rule = translateIt
		}
		if !free && rule.use == refused {
			if e.isUnset(fd, key, value) {
				delete(object, key)
				continue
			}
			e.p.Refuse(fd, fieldPath, rule.reason)
			delete(object, key)
			continue
		}
		if !e.field(fd, key, value, fieldPath, free || rule.use == cosmetic) {
			delete(object, key)
		}
	}
}

// isUnset reports whether a field is as good as left out: its value is the one that protobuf does not tell from none (false, 0, "", the first of
// an enum, an empty list).
func (e *explainer) isUnset(fd protoreflect.FieldDescriptor, key string, value any) bool {
	if fd.HasPresence() {
		return false
	}
	m := dynamicpb.NewMessage(fd.ContainingMessage())
	return document.Decode(map[string]any{key: value}, m) == nil && !m.Has(fd)
}

// field checks one value and says whether it can be kept.
func (e *explainer) field(fd protoreflect.FieldDescriptor, key string, value any, path string, free bool) bool {
	if fd.IsMap() && fd.MapValue().Message() != nil && document.IsAny(fd.MapValue().Message()) {
		return e.configurations(value, path, free)
	}
	isLeaf := fd.IsMap() || fd.Message() == nil || (document.IsWellKnown(fd.Message()) && !document.IsAny(fd.Message()))
	list, ok := value.([]any)
	if !fd.IsList() || !ok {
		list = []any{value}
	}
	keep := true
	for i, v := range list {
		place := path
		if fd.IsList() {
			place = problem.At(path, i)
		}
		if isLeaf {
			keep = e.leaf(fd, key, v, place) && keep
			continue
		}
		keep = e.element(fd.Message(), v, place, free) && keep
	}
	return keep
}

// configurations checks a map of google.protobuf.Any by name.
func (e *explainer) configurations(value any, path string, free bool) bool {
	object, ok := value.(map[string]any)
	if !ok {
		e.p.AddLeftOut(path, "expected a mapping from names of filters to their configurations")
		return false
	}
	keep := true
	for _, name := range slices.Sorted(maps.Keys(object)) {
		keep = e.element((&anypb.Any{}).ProtoReflect().Descriptor(), object[name], problem.Key(path, name), free) && keep
	}
	return keep
}

// element checks a value that must be an object of type desc.
func (e *explainer) element(desc protoreflect.MessageDescriptor, value any, path string, free bool) bool {
	object, ok := value.(map[string]any)
	if !ok {
		e.p.AddLeftOut(path, "expected a mapping with the fields of %s", desc.FullName())
		return false
	}
	if document.IsAny(desc) {
		return e.any(object, path, free)
	}
	if desc.FullName() == ClusterMessage && (e.control != "" && object["name"] == e.control || hasPipe(object)) {
		defer func(before fieldTable) { e.table, e.service = before, false }(e.table)
		e.table, e.service = controlFields, true
	}
	if desc.FullName() == secretConfig && !e.service {
		defer func(before fieldTable) { e.table = before }(e.table)
		e.table = secretMembers
	}
	if desc.FullName() == adminMessage {
		defer func(before fieldTable) { e.table = before }(e.table)
		e.table = adminFields
	}
	e.message(desc, object, path, free)
	return true
}

// hasPipe reports whether a cluster has a Unix socket for its first endpoint.
func hasPipe(cluster map[string]any) bool {
	node := any(cluster)
	for _, names := range [][]string{{"load_assignment", "loadAssignment"}, {"endpoints"}, {"lb_endpoints", "lbEndpoints"}, {"endpoint"}, {"address"}, {"pipe"}} {
		if list, ok := node.([]any); ok && len(list) > 0 {
			node = list[0]
		}
		node = Member(node, names...)
	}
	return node != nil
}

// typeName is what may stand behind @type.
var typeName = regexp.MustCompile(`^[a-z0-9./:-]*[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)+$`)

// any checks the content of a google.protobuf.Any.
func (e *explainer) any(object map[string]any, path string, free bool) bool {
	url, ok := object["@type"].(string)
	_, hasNoHost := object["@type"].(document.Misspelt)
	switch {
	case hasNoHost:
		e.p.AddLeftOut(path, `"@type" has no host in front of the name of the type; write type.googleapis.com/ there`)
		return false
	case !ok:
		e.p.AddLeftOut(path, `"@type" is missing: it names the type of this configuration`)
		return false
	}
	if !typeName.MatchString(url) {
		e.p.AddLeftOut(path, `"@type" is not the name of a type`)
		return false
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil || document.IsWellKnown(t.Descriptor()) || (!free && !e.table.isSupported(t.Descriptor())) {
		e.p.AddLeftOut(path, "%s", unsupportedType(url))
		return false
	}
	delete(object, "@type")
	e.message(t.Descriptor(), object, path, free)
	object["@type"] = url
	return true
}

// leaf decodes one value on its own.
func (e *explainer) leaf(fd protoreflect.FieldDescriptor, key string, value any, path string) bool {
	alone := value
	if fd.IsList() {
		alone = []any{value}
	}
	if document.Decode(map[string]any{key: alone}, dynamicpb.NewMessage(fd.ContainingMessage())) == nil {
		return true
	}
	if e.secret {
		e.p.AddLeftOut(path, "invalid value; expected %s", expectation(fd, nil))
		return false
	}
	if m, ok := value.(document.Misspelt); ok {
		value = m.Value
	}
	e.p.AddLeftOut(path, "invalid value %s; expected %s", brief(value), expectation(fd, value))
	return false
}

// secretPackage has the messages in which private keys are.
const secretPackage = "envoy.extensions.transport_sockets.tls.v3"

// brief prints the beginning of a JSON value.
func brief(value any) string {
	const limit = 40
	text, err := json.Marshal(value)
	switch {
	case bytes.Contains(text, []byte("-----BEGIN")):
		return "in PEM"
	case err != nil || len(text) <= limit:
		return string(text)
	}
	return strings.ToValidUTF8(string(text[:limit]), "") + "..."
}

// expectation says in words what a field, or an element of one, holds in place of the value.
func expectation(fd protoreflect.FieldDescriptor, value any) string {
	_, isNumber := value.(json.Number)
	switch {
	case fd.IsMap():
		return "a mapping"
	case fd.Enum() != nil:
		values := fd.Enum().Values()
		names := make([]string, values.Len())
		for i := range names {
			names[i] = string(values.Get(i).Name())
		}
		return "one of " + strings.Join(names, ", ")
	case fd.Kind() == protoreflect.StringKind && isNumber:
		return "string: quote it"
	case fd.Kind() == protoreflect.StringKind:
		return "string (YAML reads words such as on, yes and n as booleans: quote them)"
	case fd.Kind() == protoreflect.BytesKind:
		return "base64, without a line break"
	case fd.Message() == nil:
		return fd.Kind().String()
	case fd.Message().FullName() == "google.protobuf.Duration":
		return `a duration in seconds such as "1.5s"`
	default:
		return strings.TrimSuffix(ascii.Lower(string(fd.Message().Name())), "value")
	}
}

func (e *explainer) drop(object map[string]any, key, path, format string, args ...any) {
	e.p.AddLeftOut(path, format, args...)
	delete(object, key)
}

// identity is what may be set once: the field, or the oneof it belongs to.
func identity(fd protoreflect.FieldDescriptor) protoreflect.Descriptor {
	if oneof := fd.ContainingOneof(); oneof != nil {
		return oneof
	}
	return fd
}

func unsupportedType(url string) string {
	if strings.Contains(url, policyTypes) {
		return fmt.Sprintf("not supported: %s; XLB has, of %s, %s", url, policyTypes, supportedPolicies)
	}
	switch {
	case strings.Contains(url, clusterTypes):
		return fmt.Sprintf("not supported: %s; XLB has, of %s, dns.v3.DnsCluster", url, clusterTypes)
	case strings.Contains(url, resolverTypes):
		return fmt.Sprintf("not supported: %s; XLB has, of %s, cares.v3.CaresDnsResolverConfig", url, resolverTypes)
	}
	if strings.Contains(url, listenerTypes) {
		return fmt.Sprintf("not supported: %s; XLB has, of %s, original_dst.v3.OriginalDst, tls_inspector.v3.TlsInspector and http_inspector.v3.HttpInspector", url, listenerTypes)
	}
	if strings.Contains(url, socketTypes) {
		return fmt.Sprintf("not supported: %s; XLB has, of %s, raw_buffer.v3.RawBuffer and tls.v3.UpstreamTlsContext", url, socketTypes)
	}
	if strings.Contains(url, retryTypes) {
		return fmt.Sprintf("not supported: %s; XLB has, of %s, host.previous_hosts.v3.PreviousHostsPredicate, host.omit_canary_hosts.v3.OmitCanaryHostsPredicate, "+
			"host.omit_host_metadata.v3.OmitHostMetadataConfig and priority.previous_priorities.v3.PreviousPrioritiesConfig", url, retryTypes)
	}
	if strings.Contains(url, sessionTypes) {
		return fmt.Sprintf("not supported: %s; XLB has, of %s, cookie.v3.CookieBasedSessionState and header.v3.HeaderBasedSessionState", url, sessionTypes)
	}
	return fmt.Sprintf("not supported: %s; XLB has the filters %s", url, supportedFilters)
}
