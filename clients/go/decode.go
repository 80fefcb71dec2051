// Reads arguments into the types of handlers, exactly.
//
// The standard library matches names of fields whatever their case. The sidecar has checked and
// permitted the exact names only, so a field of another case must not reach the handler in place
// of the one that was looked at: such fields are dropped here.

package callgate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// codeRejected is the answer to arguments that the sidecar let pass and the handler's types do not.
const codeRejected = "arguments_rejected"

// decodeArguments reads arguments. Numbers in `any` become json.Number, so that they keep their
// digits. What it fails with is a ToolError `arguments_rejected`.
func decodeArguments(text []byte, into any) error {
	if raw, isRaw := into.(*json.RawMessage); isRaw {
		*raw = bytes.Clone(text)
		return nil
	}
	exact, err := exactNames(text, reflect.TypeOf(into).Elem())
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(exact))
		decoder.UseNumber()
		err = decoder.Decode(into)
	}
	if err == nil {
		return nil
	}
	path := "$"
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		if mismatch.Field != "" {
			path += "." + mismatch.Field
		}
		err = fmt.Errorf("`%s` is a %s, which does not fit %s", path, mismatch.Value, mismatch.Type)
	}
	return &ToolError{Code: codeRejected, Message: err.Error(), Path: path}
}

// exactNames drops what the standard library would take for a field although it is spelled otherwise.
func exactNames(text []byte, t reflect.Type) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if !dropInexact(tree, t) {
		return text, nil
	}
	return json.Marshal(tree)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// dropInexact says whether it has dropped anything.
func dropInexact(value any, t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(unmarshaler) {
		return false
	}
	dropped := false
	switch tree := value.(type) {
	case map[string]any:
		switch t.Kind() {
		case reflect.Struct:
			fields := fieldsOf(t)
			for name, item := range tree {
				if field, exact := fields.exact[name]; exact {
					dropped = dropInexact(item, field) || dropped
				} else if fields.folded[foldName(name)] {
					delete(tree, name)
					dropped = true
				}
			}
		case reflect.Map:
			for _, item := range tree {
				dropped = dropInexact(item, t.Elem()) || dropped
			}
		}
	case []any:
		if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
			for _, item := range tree {
				dropped = dropInexact(item, t.Elem()) || dropped
			}
		}
	}
	return dropped
}

// jsonFields are the names of a struct's fields, embedded ones included.
type jsonFields struct {
	exact  map[string]reflect.Type
	folded map[string]bool
}

var fieldCache sync.Map

func fieldsOf(t reflect.Type) jsonFields {
	if known, ok := fieldCache.Load(t); ok {
		return known.(jsonFields)
	}
	made := jsonFields{map[string]reflect.Type{}, map[string]bool{}}
	visible := reflect.VisibleFields(t)
	// Of two of one name the one that is less deep counts.
	slices.SortStableFunc(visible, func(a, b reflect.StructField) int { return len(a.Index) - len(b.Index) })
	for _, field := range visible {
		name, isOwn := jsonName(t, field)
		if !isOwn {
			continue
		}
		if _, taken := made.exact[name]; !taken {
			made.exact[name] = field.Type
			// Folding of the standard library goes a little further than lower case: long s and the Kelvin sign.
			made.folded[foldName(name)] = true
		}
	}
	fieldCache.Store(t, made)
	return made
}

// jsonName is the name of a field in the object of t, and whether it is one: not one that is left out, an
// embedded struct whose fields stand for it, or a field of an embedded struct that has a name.
func jsonName(t reflect.Type, field reflect.StructField) (string, bool) {
	for depth := 1; depth < len(field.Index); depth++ {
		around := t.FieldByIndex(field.Index[:depth])
		if name, _, _ := strings.Cut(around.Tag.Get("json"), ","); name != "" {
			return "", false
		}
	}
	tag := field.Tag.Get("json")
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case tag == "-", !field.IsExported() && !field.Anonymous, field.Anonymous && name == "" && isStruct(field.Type):
		return "", false
	case name == "":
		return field.Name, true
	}
	return name, true
}

func isStruct(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// foldName is equal for names that the standard library takes for the same.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case 'ſ':
			return 's'
		case '\u212a':
			return 'k'
		}
		return r
	}, strings.ToLower(name))
}
