// Names of the contract's enumerations, by their descriptors.

package callgate

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// enumPrefix is what every value of an enumeration begins with: the name of its zero, without UNSPECIFIED.
func enumPrefix(enum protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(enum.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// enumName is the lower-case name of a value; empty for zero, `unknown` for one that is newer.
func enumName(value protoreflect.Enum, unknown string) string {
	if value.Number() == 0 {
		return ""
	}
	enum := value.Descriptor()
	found := enum.Values().ByNumber(value.Number())
	if found == nil {
		return unknown
	}
	return strings.ToLower(strings.TrimPrefix(string(found.Name()), enumPrefix(enum)))
}

// enumNumber is the value of that name, zero if there is none. `like` gives the enumeration.
func enumNumber[E interface {
	~int32
	protoreflect.Enum
}, Name ~string](like E, name Name) E {
	if name == "" {
		return 0
	}
	enum := like.Descriptor()
	found := enum.Values().ByName(protoreflect.Name(enumPrefix(enum) + strings.ToUpper(string(name))))
	if found == nil {
		return 0
	}
	return E(found.Number())
}
