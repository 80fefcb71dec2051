// The shared vectors, as far as a client answers them.

package callgate

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// vectors are the answers that all languages share.
func vectors[C any](t *testing.T, name string) []C {
	t.Helper()
	text, err := os.ReadFile("../../tests/vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var cases []C
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

func TestSchemasThatTheSidecarTakesAsCoreAreKnownAsCore(t *testing.T) {
	seen := map[bool]int{}
	for _, c := range vectors[struct {
		Name    string
		Dialect Dialect
		Schema  any
		Expect  struct{ Code string }
	}](t, "schema.json") {
		if c.Dialect != DialectCore || c.Schema == nil {
			continue
		}
		// Of what it refuses, only a keyword or a type of another dialect makes a schema another one.
		refused := slices.Contains([]string{"schema_unsupported_keyword", "schema_missing_type", "schema_unknown_type"}, c.Expect.Code)
		if c.Expect.Code != "" && !refused {
			continue
		}
		seen[refused]++
		if found := dialectOf(c.Schema); (found == DialectCore) == refused {
			t.Errorf("%s: %s", c.Name, found)
		}
	}
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("%v", seen)
	}
}

func TestDispatchFormsPassThroughAHandlerAsTheyAre(t *testing.T) {
	for _, c := range vectors[struct {
		Name   string
		Expect struct{ Dispatch string }
	}](t, "arguments.json") {
		if c.Expect.Dispatch == "" {
			continue
		}
		var arguments map[string]any
		if err := decodeArguments([]byte(c.Expect.Dispatch), &arguments); err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		text, err := encodeJSON(arguments)
		// The encoder writes these two as escapes, which mean the same.
		text = bytes.ReplaceAll(text, []byte(`\u2028`), []byte("\u2028"))
		text = bytes.ReplaceAll(text, []byte(`\u2029`), []byte("\u2029"))
		if err != nil || string(text) != c.Expect.Dispatch {
			t.Errorf("%s: %q, wanted %q", c.Name, text, c.Expect.Dispatch)
		}
	}
}
