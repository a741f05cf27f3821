// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// lenientTypes takes types that XLB does not know for messages without fields: of filters that it passes over the name can be shown.
type lenientTypes struct{ *protoregistry.Types }

// FindMessageByURL implements protoregistry.MessageTypeResolver.
func (l lenientTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if m, err := l.Types.FindMessageByURL(url); err == nil {
		return m, nil
	}
	full := protoreflect.FullName(url[strings.LastIndex(url, "/")+1:])
	if !full.IsValid() {
		return nil, protoregistry.NotFound
	}
	pkg, name := string(full.Parent()), string(full.Name())
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: &url, Package: &pkg, MessageType: []*descriptorpb.DescriptorProto{{Name: &name}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return dynamicpb.NewMessageType(file.Messages().Get(0)), nil
}
