// Turns a Go type into a schema.
//
// The schema goes out in the core dialect if that says exactly the same, else openly in JSON
// Schema 2020-12. The sidecar refuses keywords that it would ignore, so what only decorates is
// taken out here, and nothing else is.

package callgate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// A Dialect says how a schema is read.
type Dialect string

// The dialects of the sidecar.
const (
	DialectCore   Dialect = "core"
	Dialect202012 Dialect = "json-schema-2020-12"
)

const definitionsPrefix = "#/$defs/"

var (
	coreKeywords = []string{"type", "properties", "required", "items", "description"}
	coreTypes    = []string{"string", "number", "integer", "boolean", "object", "array", "null"}
)

// deriveSchema is the schema of a type of arguments, and its dialect.
func deriveSchema(t reflect.Type) (schema []byte, dialect Dialect, err error) {
	defer func() {
		// The library panics on types that JSON cannot describe.
		if fault := recover(); fault != nil {
			err = fmt.Errorf("type %s has no schema: %v", t, fault)
		}
	}()
	namer := newTypeNamer()
	reflector := jsonschema.Reflector{
		Anonymous:                 true,
		AllowAdditionalProperties: true,
		Mapper:                    numbersAsNumbers,
		Namer:                     namer.name,
	}
	made := reflector.ReflectFromType(t)
	definitions := made.Definitions
	for _, definition := range definitions {
		tidySchema(definition)
	}
	root := made
	if name, isRef := strings.CutPrefix(made.Ref, definitionsPrefix); isRef && definitions[name] != nil {
		copied := *definitions[name]
		root = &copied
	} else {
		tidySchema(root)
	}
	root.Version, root.Definitions = "", nil
	if root.Type != "object" {
		return nil, "", fmt.Errorf("the arguments must be an object, and %s is none", t)
	}
	if core := coreSchema(root, definitions, nil); core != nil {
		schema, err = encodeJSON(core)
		return schema, DialectCore, err
	}
	root.Definitions = reachable(root, definitions)
	schema, err = encodeJSON(root)
	return schema, Dialect202012, err
}

// numbersAsNumbers describes the types of exact numbers, which are structs and text to reflection.
func numbersAsNumbers(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[big.Int](), reflect.TypeFor[*big.Int]():
		return &jsonschema.Schema{Type: "integer"}
	case reflect.TypeFor[json.Number]():
		return &jsonschema.Schema{Type: "number"}
	}
	return nil
}

// typeNamer gives each type a name of its own, also where two packages use the same one.
type typeNamer struct {
	types map[string]reflect.Type
	names map[reflect.Type]string
}

func newTypeNamer() *typeNamer {
	return &typeNamer{map[string]reflect.Type{}, map[reflect.Type]string{}}
}

func (n *typeNamer) name(t reflect.Type) string {
	if name, known := n.names[t]; known {
		return name
	}
	// Of a generic type the name holds what it was made with, dots and slashes included.
	base := strings.Map(func(r rune) rune {
		if strings.ContainsRune("[]/.*, ·", r) {
			return '_'
		}
		return r
	}, t.Name())
	if base == "" {
		return ""
	}
	name := base
	for number := 2; n.types[name] != nil; number++ {
		name = fmt.Sprintf("%s_%d", base, number)
	}
	n.types[name], n.names[t] = t, name
	return name
}

// tidySchema drops what asserts nothing. The `content…` keywords are only notes in JSON Schema, so
// the sidecar refuses them.
func tidySchema(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	schema.Title = ""
	schema.ContentEncoding, schema.ContentMediaType, schema.ContentSchema = "", "", nil
	for _, child := range children(schema) {
		tidySchema(child)
	}
}

func children(schema *jsonschema.Schema) []*jsonschema.Schema {
	found := slices.Concat(schema.AllOf, schema.AnyOf, schema.OneOf, schema.PrefixItems)
	for _, child := range []*jsonschema.Schema{
		schema.Not, schema.If, schema.Then, schema.Else, schema.Items, schema.Contains,
		schema.AdditionalProperties, schema.PropertyNames,
	} {
		if child != nil {
			found = append(found, child)
		}
	}
	for _, several := range []map[string]*jsonschema.Schema{
		schema.DependentSchemas, schema.PatternProperties, schema.Definitions,
	} {
		for _, child := range several {
			found = append(found, child)
		}
	}
	if schema.Properties != nil {
		for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
			found = append(found, pair.Value)
		}
	}
	return found
}

// reachable are the definitions that a schema needs; nil: none.
func reachable(root *jsonschema.Schema, definitions jsonschema.Definitions) jsonschema.Definitions {
	needed := jsonschema.Definitions{}
	var walk func(*jsonschema.Schema)
	walk = func(schema *jsonschema.Schema) {
		name, isRef := strings.CutPrefix(schema.Ref, definitionsPrefix)
		if isRef && needed[name] == nil && definitions[name] != nil {
			needed[name] = definitions[name]
			walk(definitions[name])
		}
		for _, child := range children(schema) {
			walk(child)
		}
	}
	walk(root)
	if len(needed) == 0 {
		return nil
	}
	return needed
}

// coreSchema is the same schema in the core dialect, or nil if that would lose something.
// inside are the definitions that are being written out.
func coreSchema(
	schema *jsonschema.Schema, definitions jsonschema.Definitions, inside []string,
) *jsonschema.Schema {
	if name, isRef := strings.CutPrefix(schema.Ref, definitionsPrefix); isRef {
		// A schema that contains itself cannot be written out.
		if slices.Contains(inside, name) || definitions[name] == nil {
			return nil
		}
		target := coreSchema(definitions[name], definitions, append(slices.Clone(inside), name))
		if target == nil || !holdsOnly(schema, "$ref", "description", "default") {
			return nil
		}
		if schema.Description != "" {
			target.Description = schema.Description
		}
		return target
	}
	if !holdsOnly(schema, append(slices.Clone(coreKeywords), "default")...) || !slices.Contains(coreTypes, schema.Type) {
		return nil
	}
	made := &jsonschema.Schema{Type: schema.Type, Required: schema.Required, Description: schema.Description}
	if schema.Properties != nil {
		made.Properties = jsonschema.NewProperties()
		for pair := schema.Properties.Oldest(); pair != nil; pair = pair.Next() {
			child := coreSchema(pair.Value, definitions, inside)
			if child == nil {
				return nil
			}
			made.Properties.Set(pair.Key, child)
		}
	}
	if schema.Items != nil {
		if isTrue(schema.Items) {
			return made
		}
		if made.Items = coreSchema(schema.Items, definitions, inside); made.Items == nil {
			return nil
		}
	}
	return made
}

func isTrue(schema *jsonschema.Schema) bool {
	text, err := json.Marshal(schema)
	return err == nil && (string(text) == "true" || string(text) == "{}")
}

// holdsOnly says whether a schema has no other keywords than these.
func holdsOnly(schema *jsonschema.Schema, keywords ...string) bool {
	shallow := *schema
	// Looked at one by one by the caller; here only whether they are there.
	shallow.Properties, shallow.Items = nil, nil
	if shallow.AdditionalProperties != nil && isTrue(shallow.AdditionalProperties) {
		shallow.AdditionalProperties = nil
	}
	text, err := json.Marshal(&shallow)
	if err != nil {
		return false
	}
	var found map[string]json.RawMessage
	if json.Unmarshal(text, &found) != nil {
		return false
	}
	for keyword := range found {
		if !slices.Contains(keywords, keyword) {
			return false
		}
	}
	return true
}

// dialectOf is the dialect that a hand-written schema is in; it is never rewritten.
func dialectOf(schema any) Dialect {
	if isCore(schema) {
		return DialectCore
	}
	return Dialect202012
}

func isCore(value any) bool {
	schema, isObject := value.(map[string]any)
	if !isObject {
		return false
	}
	for keyword := range schema {
		if !slices.Contains(coreKeywords, keyword) {
			return false
		}
	}
	kind, _ := schema["type"].(string)
	if !slices.Contains(coreTypes, kind) {
		return false
	}
	if properties, given := schema["properties"]; given {
		named, isObject := properties.(map[string]any)
		if !isObject {
			return false
		}
		for _, child := range named {
			if !isCore(child) {
				return false
			}
		}
	}
	items, given := schema["items"]
	return !given || isCore(items)
}

// encodeJSON writes one document, compact, with every digit, and `<` as it is.
func encodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(text.Bytes(), "\n"), nil
}
