// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"math"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Options change which fields are taken.
type Options struct {
	// EnvoyHeaders has listeners add headers unasked, so that the fields that say which are translated.
	EnvoyHeaders bool
	// View: it is the configuration of a view (viewFields).
	View bool
}

// ruleOf is the rule of a field where a table applies.
func (o Options) ruleOf(table fieldTable, fd protoreflect.FieldDescriptor) rule {
	if r, ok := viewFields[fd.ContainingMessage().FullName()][fd.Name()]; ok && o.View {
		return r
	}
	return table.ruleOf(fd)
}

// CheckBootstrap reports every populated field of a bootstrap that XLB does not act on, and every value that breaks one of Envoy's own
// constraints. It returns notes on fields that are accepted although XLB does not do what they say.
func CheckBootstrap(p *problem.List, bootstrap *bootstrapv3.Bootstrap, o Options) []Note {
	w := &walker{p: p, options: o, services: Services(bootstrap)}
	w.check(bootstrap)
	return w.notes
}

// CheckResource is CheckBootstrap for a resource of a control plane, or of a file of resources. Endpoints that XLB can't speak to are left out of
// it, and no problem.
func CheckResource(p *problem.List, m proto.Message, o Options) []Note {
	w := &walker{p: p, options: o, table: dynamicFields, leavesOut: true}
	w.check(m)
	return w.notes
}

// CheckSecret is CheckBootstrap for a secret of endpoints.
func CheckSecret(p *problem.List, m proto.Message) { (&walker{p: p}).check(m) }

// CheckControlSecret is CheckBootstrap for a secret of the connection to a control plane.
func CheckControlSecret(p *problem.List, m proto.Message) {
	(&walker{p: p, table: controlFields}).check(m)
}

// check does it for one message, whose fields have no path in front.
func (w *walker) check(m proto.Message) {
	w.typed(m, "")
	// Constraints come second: in a refused field they no longer matter.
	for _, m := range w.messages {
		addViolations(w.p, m.message.ProtoReflect().Descriptor(), m.path, validateAll(m.message))
	}
}

// walker visits the populated fields of a message tree.
type walker struct {
	p       *problem.List
	options Options
	// services are the clusters that are not balanced, for which another table applies.
	services map[string]bool
	table    fieldTable
	// service: it is in one of them. leavesOut: endpoints that XLB cannot speak to are left out.
	service, leavesOut bool
	// messages are the bootstrap and the content of every Any in it: the
	// generated validation does not look into an Any.
	messages []located
	notes    []Note
}

type located struct {
	path    string
	message proto.Message
}

func (w *walker) typed(m proto.Message, path string) {
	w.messages = append(w.messages, located{path, m})
	w.message(m.ProtoReflect(), path)
}

func (w *walker) message(m protoreflect.Message, path string) {
	if l, ok := m.Interface().(*listenerv3.Listener); ok && LeavesAlone(l) {
		return
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); m.Has(fd) {
			w.field(fd, m.Get(fd), problem.Field(path, string(fd.Name())))
		}
	}
}

func (w *walker) field(fd protoreflect.FieldDescriptor, value protoreflect.Value, path string) {
	rule := w.options.ruleOf(w.table, fd)
	if rule.envoyHeaders && w.options.EnvoyHeaders {
		rule = translateIt
	}
	if rule.noted && (rule.allows == nil || rule.allows(fd, value)) {
		w.notes = append(w.notes, Note{Path: path, Reason: rule.notice()})
	}
	switch {
	case rule.use == refused:
		w.p.Refuse(fd, path, rule.reason)
	case rule.use == limited && !rule.allows(fd, value):
		w.p.Add(path, "%s", rule.reason)
	case isNaN(fd, value):
		w.p.Add(path, "NaN is no number; write one")
	case rule.use != translated || fd.Message() == nil:
		return
	case fd.IsMap():
		w.configurations(value.Map(), path)
	case fd.IsList():
		n := value.List().Len()
		if rule.first {
			n = min(n, 1)
		}
		for i := range n {
			w.element(value.List().Get(i).Message(), problem.At(path, i))
		}
	default:
		w.element(value.Message(), path)
	}
}

// isNaN reports the one value that is within every range, since no comparison with it holds. JSON has it as a text (protobuf's ProtoJSON
// format).
func isNaN(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	switch {
	case fd.IsList() || fd.IsMap():
		return false
	case fd.Kind() == protoreflect.DoubleKind || fd.Kind() == protoreflect.FloatKind:
		return math.IsNaN(value.Float())
	case fd.Message() == nil:
		return false
	}
	wrapped, ok := value.Message().Interface().(interface{ GetValue() float64 })
	return ok && math.IsNaN(wrapped.GetValue())
}

// configurations visits a typed_per_filter_config, the only map that is translated.
func (w *walker) configurations(m protoreflect.Map, path string) {
	m.Range(func(name protoreflect.MapKey, value protoreflect.Value) bool {
		w.element(value.Message(), problem.Key(path, name.String()))
		return true
	})
}

func (w *walker) element(m protoreflect.Message, path string) {
	if content, ok := m.Interface().(*anypb.Any); ok {
		w.any(content, path)
		return
	}
	if isIgnored(m.Interface()) {
		return
	}
	if f, ok := m.Interface().(*clusterv3.Filter); ok && f.GetTypedConfig() != nil {
		url, _ := TypeOf(f.GetTypedConfig())
		name := NameOf(url)
		w.p.Add(path+".typed_config", "not supported: %s; XLB has no filters of connections to endpoints, and does without %s whose protocol is %s", name, typeExchange, ExchangeProtocol)
		return
	}
	if c, ok := m.Interface().(*clusterv3.Cluster); ok && w.services[c.GetName()] {
		defer func(before fieldTable) { w.table, w.service = before, false }(w.table)
		w.table, w.service = controlFields, true
	}
	if s, ok := m.Interface().(*corev3.TransportSocket); ok && w.leavesOut && isForeign(s) {
		return
	}
	if m.Descriptor().FullName() == secretConfig && !w.service {
		defer func(before fieldTable) { w.table = before }(w.table)
		w.table = secretMembers
	}
	if m.Descriptor().FullName() == adminMessage {
		defer func(before fieldTable) { w.table = before }(w.table)
		w.table = adminFields
	}
	if !document.IsWellKnown(m.Descriptor()) {
		w.message(m, path)
	}
}

// isForeign reports a transport socket whose endpoints are left out.
func isForeign(s *corev3.TransportSocket) bool {
	why := LeftOut(s)
	return why != nil && why.Reason == model.LeftOutSocket
}

func (w *walker) any(content *anypb.Any, path string) {
	m, err := content.UnmarshalNew()
	if err != nil || !w.table.isSupported(m.ProtoReflect().Descriptor()) {
		url, _ := TypeOf(content)
		w.p.Add(path, "%s", unsupportedType(url))
		return
	}
	w.typed(m, path)
}

// validateAll runs the constraints that protoc-gen-validate generated.
func validateAll(m proto.Message) error {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		return v.ValidateAll()
	}
	return nil
}

// addViolations turns the nested errors of ValidateAll into paths.
func addViolations(p *problem.List, desc protoreflect.MessageDescriptor, path string, err error) {
	var many interface{ AllErrors() []error }
	if errors.As(err, &many) {
		for _, e := range many.AllErrors() {
			addViolations(p, desc, path, e)
		}
		return
	}
	var violation interface {
		Field() string
		Reason() string
		Cause() error
	}
	if !errors.As(err, &violation) {
		return
	}
	goName, index, _ := strings.Cut(violation.Field(), "[")
	fd := fieldByGoName(desc, goName)
	if fd == nil {
		p.Add(path, "invalid: %s", oneofReason(desc, goName, violation.Reason()))
		return
	}
	fieldPath := problem.Field(path, string(fd.Name()))
	if index != "" {
		fieldPath += "[" + index
	}
	if violation.Cause() != nil && fd.Message() != nil && !fd.IsMap() {
		addViolations(p, fd.Message(), fieldPath, violation.Cause())
		return
	}
	p.Add(fieldPath, "invalid: %s", plainer.Replace(violation.Reason()))
}

// plainer puts the generator's commonest phrases into words.
var plainer = strings.NewReplacer(
	"value length must be at least 1 runes", "must not be empty",
	"value must contain at least 1 item(s)", "must not be empty",
)

// fieldByGoName undoes the generator's camel case.
func fieldByGoName(desc protoreflect.MessageDescriptor, goName string) protoreflect.FieldDescriptor {
	fields := desc.Fields()
	for i := range fields.Len() {
		if sameGoName(fields.Get(i).Name(), goName) {
			return fields.Get(i)
		}
	}
	return nil
}

// oneofReason says which fields could satisfy a required oneof.
func oneofReason(desc protoreflect.MessageDescriptor, goName, violation string) string {
	oneofs := desc.Oneofs()
	for i := range oneofs.Len() {
		if !sameGoName(oneofs.Get(i).Name(), goName) {
			continue
		}
		var names []string
		for j := range oneofs.Get(i).Fields().Len() {
			if fd := oneofs.Get(i).Fields().Get(j); supported.ruleOf(fd).use != refused {
				names = append(names, string(fd.Name()))
			}
		}
		return "needs " + strings.Join(names, " or ")
	}
	return goName + ": " + violation
}

func sameGoName(name protoreflect.Name, goName string) bool {
	return ascii.EqualFold(strings.ReplaceAll(string(name), "_", ""), goName)
}
