// SPDX-License-Identifier: Apache-2.0

// Package schema says which fields of Envoy's messages XLB takes (fields.go and the tables beside it), checks messages by that, and explains
// what can't be decoded in the tree of a document. It translates nothing.
package schema

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// use says what XLB does with a populated field.
type use uint8

const (
	// refused: the field changes what Envoy does and XLB does not do it. This
	// is the meaning of a field that the table does not hold.
	refused use = iota
	// translated: the field becomes part of the model; a message is walked on.
	translated
	// limited: the field may only hold values that ask for what XLB does
	// anyway.
	limited
	// cosmetic: the field changes nothing about traffic, whatever it holds; but see differs.
	cosmetic
)

// rule is the entry of one field.
type rule struct {
	use use
	// reason completes the message to the user when the field is refused; for
	// a cosmetic field it says why it may be ignored.
	reason string
	// allows decides over the value of a limited field.
	allows func(protoreflect.FieldDescriptor, protoreflect.Value) bool
	// first: of a list only the first element is looked at.
	first bool
	// noted: operators are shown that the field is ignored, by note, or else by reason.
	noted bool
	note  string
	// differs: the field changes what Envoy does, and XLB does what reason says.
	differs bool
	// envoyHeaders: with EnvoyHeaders the field is translated, whatever use says.
	envoyHeaders bool
}

type fields map[protoreflect.Name]rule

// fieldTable says by message type and field what a part of a configuration may contain.
type fieldTable map[protoreflect.FullName]fields

// ruleOf looks a field up in the table, and then in the one for everything.
func (t fieldTable) ruleOf(fd protoreflect.FieldDescriptor) rule {
	if r, ok := t[fd.ContainingMessage().FullName()][fd.Name()]; ok {
		return r
	}
	if r, ok := supported[fd.ContainingMessage().FullName()][fd.Name()]; ok {
		return r
	}
	return refuse(noField)
}

// merge is the table with what another says beside it.
func (t fieldTable) merge(other fieldTable) fieldTable {
	out := fieldTable{}
	for _, table := range []fieldTable{t, other} {
		for message, list := range table {
			if out[message] == nil {
				out[message] = fields{}
			}
			maps.Copy(out[message], list)
		}
	}
	return out
}

// isSupported says whether one of the two tables holds a message type.
func (t fieldTable) isSupported(desc protoreflect.MessageDescriptor) bool {
	return t[desc.FullName()] != nil || supported[desc.FullName()] != nil
}

var translateIt = rule{use: translated}

func refuse(remedy string) rule {
	return rule{use: refused, reason: "not supported: " + remedy}
}

func ignore(why string) rule {
	return rule{use: cosmetic, reason: why}
}

// passOver is for a field that changes what Envoy does, and is accepted all the same; why says what XLB does.
func passOver(why string) rule {
	return rule{use: cosmetic, reason: why, differs: true}
}

func limit(remedy string, allows func(protoreflect.FieldDescriptor, protoreflect.Value) bool) rule {
	return rule{use: limited, reason: "not supported: " + remedy, allows: allows}
}

// withEnvoyHeaders is for a field about headers that are added unasked.
func withEnvoyHeaders(otherwise rule) rule {
	otherwise.envoyHeaders = true
	return otherwise
}

// oneOf allows these values of an enum.
func oneOf(names ...protoreflect.Name) func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
	return func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		for _, name := range names {
			if fd.Enum().Values().ByName(name).Number() == v.Enum() {
				return true
			}
		}
		return false
	}
}

// boolean allows one value of a bool or a google.protobuf.BoolValue.
func boolean(want bool) func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
	return func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Message() == nil {
			return v.Bool() == want
		}
		b, ok := v.Message().Interface().(*wrapperspb.BoolValue)
		return ok && b.GetValue() == want
	}
}

// lasting allows these durations.
func lasting(wanted ...time.Duration) func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
	return func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		d, ok := v.Message().Interface().(*durationpb.Duration)
		return ok && slices.Contains(wanted, d.AsDuration())
	}
}

// count allows one value of a google.protobuf.UInt32Value or UInt64Value.
func count(want uint64) func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
	return func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch n := v.Message().Interface().(type) {
		case *wrapperspb.UInt32Value:
			return uint64(n.GetValue()) == want
		case *wrapperspb.UInt64Value:
			return n.GetValue() == want
		}
		return false
	}
}

// isString allows one text.
func isString(want string) func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
	return func(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool { return v.String() == want }
}
