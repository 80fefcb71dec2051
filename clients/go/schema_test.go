// Schemas of types, and arguments read into them.

package callgate

import (
	"context"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Name string   `json:"name" jsonschema_description:"A name."`
	Tags []string `json:"tags,omitempty"`
}

type tree struct {
	Value    int     `json:"value"`
	Children []*tree `json:"children,omitempty"`
}

type embedded struct {
	inner
	Extra bool `json:"extra"`
}

func TestSchemasComeFromTypesInTheSmallestDialect(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      reflect.Type
		schema  string
		dialect Dialect
	}{
		{"nothing", reflect.TypeFor[struct{}](), `{"properties":{},"type":"object"}`, DialectCore},
		{"any object", reflect.TypeFor[map[string]any](), `{"type":"object"}`, DialectCore},
		{"nested", reflect.TypeFor[struct {
			In    inner            `json:"in"`
			More  []inner          `json:"more,omitempty"`
			N     int64            `json:"n" jsonschema:"description=How many."`
			F     *float32         `json:"f,omitempty"`
			Big   *big.Int         `json:"big,omitempty"`
			Exact json.Number      `json:"exact,omitempty"`
			Bytes []byte           `json:"bytes,omitempty"`
			Free  []any            `json:"free,omitempty"`
			Map   map[string]inner `json:"-"`
		}](), `{"properties":{"in":{"properties":{"name":{"type":"string","description":"A name."},"tags":{"items":{"type":"string"},` +
			`"type":"array"}},"type":"object","required":["name"]},"more":{"items":{"properties":{"name":{"type":"string","description":` +
			`"A name."},"tags":{"items":{"type":"string"},"type":"array"}},"type":"object","required":["name"]},"type":"array"},"n":` +
			`{"type":"integer","description":"How many."},"f":{"type":"number"},"big":{"type":"integer"},"exact":{"type":"number"},` +
			`"bytes":{"type":"string"},"free":{"type":"array"}},"type":"object","required":["in","n"]}`, DialectCore},
		{"embedded", reflect.TypeFor[embedded](), `{"properties":{"name":{"type":"string","description":"A name."},"tags":{"items":` +
			`{"type":"string"},"type":"array"},"extra":{"type":"boolean"}},"type":"object","required":["name","extra"]}`, DialectCore},
		{"enum and range", reflect.TypeFor[struct {
			Flour string `json:"flour" jsonschema:"enum=rye,enum=wheat"`
			Grams int    `json:"grams" jsonschema:"minimum=1"`
		}](), `{"properties":{"flour":{"type":"string","enum":["rye","wheat"]},"grams":{"type":"integer","minimum":1}},` +
			`"type":"object","required":["flour","grams"]}`, Dialect202012},
		{"a time", reflect.TypeFor[struct {
			At time.Time `json:"at"`
		}](), `{"properties":{"at":{"type":"string","format":"date-time"}},"type":"object","required":["at"]}`, Dialect202012},
		{"a map", reflect.TypeFor[map[string]int](), `{"additionalProperties":{"type":"integer"},"type":"object"}`, Dialect202012},
		{"one that contains itself", reflect.TypeFor[tree](), `{"$defs":{"tree":{"properties":{"value":{"type":"integer"},"children":` +
			`{"items":{"$ref":"#/$defs/tree"},"type":"array"}},"type":"object","required":["value"]}},"properties":{"value":{"type":` +
			`"integer"},"children":{"items":{"$ref":"#/$defs/tree"},"type":"array"}},"type":"object","required":["value"]}`, Dialect202012},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema, dialect, err := deriveSchema(c.of)
			if err != nil {
				t.Fatal(err)
			}
			if string(schema) != c.schema || dialect != c.dialect {
				t.Errorf("%s\n%s", dialect, schema)
			}
		})
	}
}

func TestTypesOfOneNameHaveSchemasOfTheirOwn(t *testing.T) {
	type tree struct {
		Leaf string `json:"leaf"`
	}
	schema, _, err := deriveSchema(reflect.TypeFor[struct {
		One outerTree `json:"one"`
		Two tree      `json:"two"`
	}]())
	if err != nil || !strings.Contains(string(schema), `"leaf"`) || !strings.Contains(string(schema), `"children"`) {
		t.Errorf("%s, %v", schema, err)
	}
}

type outerTree = tree

func TestWhatCannotBeAToolIsRefused(t *testing.T) {
	none := func(context.Context, struct{}) (string, error) { return "", nil }
	for _, c := range []struct {
		name string
		tool *Definition
		code string
	}{
		{"no name", Tool("", "", none), "tool_name_empty"},
		{"a bad name", Tool("a b\u202e", "", none), "tool_name_invalid"},
		{"no object", Tool("a", "", func(context.Context, int) (string, error) { return "", nil }), "tool_definition_invalid"},
		{"a channel", Tool("a", "", func(context.Context, struct{ C chan int }) (string, error) { return "", nil }), "tool_definition_invalid"},
		{"raw without a schema", Tool("a", "", func(context.Context, json.RawMessage) (string, error) { return "", nil }), "tool_definition_invalid"},
		{"a risk", Tool("a", "", none, WithRisk("perhaps")), "tool_definition_invalid"},
		{"a kind", Tool("a", "", none, WithKind("perhaps")), "tool_definition_invalid"},
		{"a pointer", Tool("a", "", none, WithLoopKey("a")), "tool_definition_invalid"},
		{"a secret", Tool("a", "", none, WithSecretPointers("a")), "tool_definition_invalid"},
		{"a subject", Tool("a", "", none, WithSubject(Subject{Pointer: "/", Type: SubjectPath})), "tool_definition_invalid"},
		{"a subject's type", Tool("a", "", none, WithSubject(Subject{Pointer: "/a"})), "tool_definition_invalid"},
		{"a dialect", Tool("a", "", none, WithSchema(`{}`), WithDialect("perhaps")), "tool_definition_invalid"},
		{"a schema", Tool("a", "", none, WithSchema(`{`)), "tool_definition_invalid"},
		{"annotations", Tool("a", "", none, WithAnnotations(1)), "tool_definition_invalid"},
		{"a timeout", Tool("a", "", none, WithTimeout(-1)), "tool_definition_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, ok := c.tool.Err().(*Error)
			if !ok || found.Code != c.code || !found.Is(ErrDefinition) {
				t.Errorf("%v", c.tool.Err())
			}
		})
	}
	raw := Tool("a", "", func(_ context.Context, in json.RawMessage) (string, error) { return string(in), nil },
		WithSchema(map[string]any{"type": "object", "enum": []int{1}}))
	schema, dialect := raw.Schema()
	if raw.Err() != nil || string(schema) != `{"enum":[1],"type":"object"}` || dialect != Dialect202012 {
		t.Errorf("%s %s %v", schema, dialect, raw.Err())
	}
}

func TestFieldsAreMatchedByTheirExactNamesOnly(t *testing.T) {
	type list struct {
		Items []inner          `json:"items"`
		Named map[string]inner `json:"named"`
		Path  string           `json:"path"`
		Free  any              `json:"free"`
		Plain string
	}
	for text, wanted := range map[string]string{
		`{"path":"/ok","Path":"/etc","PATH":"/etc"}`: `{"items":null,"named":null,"path":"/ok","free":null,"Plain":""}`,
		`{"Path":"/etc"}`: `{"items":null,"named":null,"path":"","free":null,"Plain":""}`,
		`{"items":[{"Name":"a"},{"name":"b","NAME":"c"}]}`:          `{"items":[{"name":""},{"name":"b"}],"named":null,"path":"","free":null,"Plain":""}`,
		`{"named":{"Name":{"name":"b","Name":"c"}}}`:                `{"items":null,"named":{"Name":{"name":"b"}},"path":"","free":null,"Plain":""}`,
		`{"free":{"Name":1,"name":2},"plain":"x","Plain":"y"}`:      `{"items":null,"named":null,"path":"","free":{"Name":1,"name":2},"Plain":"y"}`,
		`{"itemſ":[{"name":"a"}],"path":"a"}`:                       `{"items":null,"named":null,"path":"a","free":null,"Plain":""}`,
		`{"free":9007199254740993,"path":"b"}`:                      `{"items":null,"named":null,"path":"b","free":9007199254740993,"Plain":""}`,
		`{"free":[1e400,0.10],"Items":[{"name":"c"}],"other":true}`: `{"items":null,"named":null,"path":"","free":[1e400,0.10],"Plain":""}`,
	} {
		var into list
		if err := decodeArguments([]byte(text), &into); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if found, _ := encodeJSON(into); string(found) != wanted {
			t.Errorf("%s: %s", text, found)
		}
	}
}

type around struct {
	inner
	Named inner `json:"named"`
}

type shadowing struct {
	Under *shadowed `json:"under"`
	shadowed
	Path string `json:"path"`
}

type shadowed struct {
	Path inner  `json:"path"`
	Name string `json:"-"`
}

func TestFieldsOfEmbeddedStructsAreMatchedByTheirExactNames(t *testing.T) {
	var into around
	if err := decodeArguments([]byte(`{"Name":"a","name":"b","named":{"NAME":"c"},"Tags":["x"]}`), &into); err != nil {
		t.Fatal(err)
	}
	if into.Name != "b" || into.Named.Name != "" || into.Tags != nil {
		t.Errorf("%+v", into)
	}
	var deep shadowing
	if err := decodeArguments([]byte(`{"path":"a","Path":"b","under":{"path":{"name":"c","Name":"d"}}}`), &deep); err != nil {
		t.Fatal(err)
	}
	if deep.Path != "a" || deep.Under.Path.Name != "c" {
		t.Errorf("%+v", deep)
	}
}

func TestExactIntegersArriveDigitForDigit(t *testing.T) {
	var into struct {
		N   int64       `json:"n"`
		Big *big.Int    `json:"big"`
		Raw json.Number `json:"raw"`
	}
	if err := decodeArguments([]byte(`{"n":9007199254740993,"big":123456789012345678901234567890,"raw":1.10}`), &into); err != nil {
		t.Fatal(err)
	}
	if into.N != 9007199254740993 || into.Big.String() != "123456789012345678901234567890" || into.Raw != "1.10" {
		t.Errorf("%+v", into)
	}
	err := decodeArguments([]byte(`{"n":1.5}`), &into)
	if rejected, ok := err.(*ToolError); !ok || rejected.Code != codeRejected || rejected.Path != "$.n" {
		t.Errorf("%v", err)
	}
}
