// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Envoy reads files with the parser of protobuf in C++ (src/google/protobuf/json/internal/parser.cc, with its legacy syntax, and enums in any case).
// That takes more spellings than protojson does, and a few less. Respell makes canonical ones of them, with the same meaning, wherever a value may
// stand: below any type, in the content of an Any too. What it does not know it leaves, for the explainer to tell.

// Misspelt stands in a tree for a Value that Envoy refuses. No field can be decoded from what it marshals to.
type Misspelt struct{ Value any }

// MarshalJSON returns an object that is no message, with the value.
func (m Misspelt) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any{"": m.Value}) }

// Respell rewrites the members of an object, a message of type desc. Those that are null go: a field that is null is absent.
func Respell(desc protoreflect.MessageDescriptor, object map[string]any) {
	for name, value := range object {
		fd := FieldByKey(desc, name)
		switch {
		case fd == nil:
		case value == nil && !isFreeForm(fd):
			delete(object, name)
		default:
			object[name] = respelt(fd, value)
		}
	}
}

// isFreeForm reports a google.protobuf.Value, which alone may be null.
func isFreeForm(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value"
}

// respelt is the value of a field, a list or map of them where that is what the field holds. One element stands for a list of it.
func respelt(fd protoreflect.FieldDescriptor, value any) any {
	switch {
	case fd.IsMap():
		object, ok := value.(map[string]any)
		if !ok {
			return value
		}
		for name, one := range object {
			object[name] = elementOf(fd.MapValue(), one)
		}
		return object
	case !fd.IsList():
		return single(fd, value)
	}
	list, ok := value.([]any)
	if !ok {
		return []any{single(fd, value)}
	}
	return flattened(fd, []any{}, list)
}

// flattened appends the elements of a list to out. A list in a list counts for its elements, unless the field holds lists.
func flattened(fd protoreflect.FieldDescriptor, out, list []any) []any {
	holdsLists := isFreeForm(fd) || fd.Message() != nil && fd.Message().FullName() == "google.protobuf.ListValue"
	for _, one := range list {
		if inner, ok := one.([]any); ok && !holdsLists {
			out = flattened(fd, out, inner)
			continue
		}
		out = append(out, elementOf(fd, one))
	}
	return out
}

// elementOf is one of a list or a map: null is the value that is no different from none.
func elementOf(fd protoreflect.FieldDescriptor, value any) any {
	if value != nil || isFreeForm(fd) {
		return single(fd, value)
	}
	switch {
	case fd.Message() != nil:
		return message(fd.Message(), map[string]any{})
	case fd.Kind() == protoreflect.BoolKind:
		return false
	case fd.Kind() == protoreflect.StringKind, fd.Kind() == protoreflect.BytesKind:
		return ""
	default:
		return json.Number("0")
	}
}

// single respells one value.
func single(fd protoreflect.FieldDescriptor, value any) any {
	var ok bool
	out := value
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return message(fd.Message(), value)
	case protoreflect.BoolKind:
		out, ok = truth(value)
	case protoreflect.StringKind:
		_, ok = value.(string)
	case protoreflect.BytesKind:
		out, ok = base64Text(value)
	case protoreflect.EnumKind:
		out, ok = enumValue(fd.Enum(), value)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		out, ok = floating(value)
	default:
		out, ok = integral(fd.Kind(), value)
	}
	if !ok {
		return Misspelt{value}
	}
	return out
}

// message respells one message. The types that have a form of their own in JSON may be objects with fields all the same.
func message(desc protoreflect.MessageDescriptor, value any) any {
	object, isObject := value.(map[string]any)
	switch name := desc.FullName(); {
	case name == "google.protobuf.Duration":
		return durationOf(desc, value)
	case name == "google.protobuf.Timestamp" && isObject:
		return timestampOf(desc, object)
	case isWrapper(desc):
		return wrapper(desc, value)
	case IsAny(desc) && isObject:
		content(object)
	case isObject && !IsWellKnown(desc):
		Respell(desc, object)
	}
	return value
}

// isWrapper reports a scalar in a message, as google.protobuf.UInt32Value.
func isWrapper(desc protoreflect.MessageDescriptor) bool {
	return desc.ParentFile().Path() == "google/protobuf/wrappers.proto"
}

// wrapper takes {value: 5} for 5, and {} for 0.
func wrapper(desc protoreflect.MessageDescriptor, value any) any {
	fd := desc.Fields().ByName("value")
	object, ok := value.(map[string]any)
	if !ok {
		return single(fd, value)
	}
	inner, has := object["value"]
	if len(object) > 1 || len(object) == 1 && !has {
		return Misspelt{value}
	}
	return elementOf(fd, inner)
}

// content respells what a google.protobuf.Any holds. Its type has to have a host in front of the name, which may be any.
func content(object map[string]any) {
	url, ok := object["@type"].(string)
	if !ok {
		return
	}
	if strings.Index(url, "/") < 1 {
		object["@type"] = Misspelt{url}
		return
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	switch {
	case err != nil:
	case IsWellKnown(t.Descriptor()):
		if value, has := object["value"]; has && value != nil {
			object["value"] = message(t.Descriptor(), value)
		}
	default:
		delete(object, "@type")
		Respell(t.Descriptor(), object)
		object["@type"] = url
	}
}
