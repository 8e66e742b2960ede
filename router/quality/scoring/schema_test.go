package scoring

import (
	"strings"
	"testing"
)

const person = `{"type": "object", "required": ["name", "age"], "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}, "additionalProperties": false}`

func TestJSONSchema(t *testing.T) {
	for answer, want := range map[string]float64{
		`{"name": "Ann", "age": 3}`: 1,
		"Here it is:\n```json\n{\"name\": \"Ann\", \"age\": 3}\n```\nAnything else?":                   1,
		"```\n{\"name\": \"Ann\", \"age\": 3}":                                                         1, // cut off after the value
		"```json\n{\"name\": \"Ann\"}\n```\nno, rather\n```json\n{\"name\": \"Ann\", \"age\": 3}\n```": 1,
		`{"name": "Ann", "age": -3}`:                                                                   0,
		`{"name": "Ann", "age": 3.5}`:                                                                  0,
		`{"name": "Ann", "age": 3, "more": 1}`:                                                         0,
		`{"name": "Ann", "age": 3`:                                                                     0,
		`Ann is 3.`:                                                                                    0,
		``:                                                                                             0,
	} {
		if got, err := scoreOf(JSONSchema, answer, person); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", answer, got, err, want)
		}
	}
}

func TestRefusedSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{`:                                       "the schema is no JSON",
		`{"type": "person"}`:                      "the schema cannot be used",
		`{"pattern": "("}`:                        "the schema cannot be used",
		`{"$ref": "other.json"}`:                  "a schema may refer only to itself",
		`{"$ref": "file:///etc/passwd"}`:          "a schema may refer only to itself",
		`{"$ref": "http://127.0.0.1:1/a.json"}`:   "a schema may refer only to itself",
		`{"$schema": "http://127.0.0.1:1/draft"}`: "a schema may refer only to itself",
	} {
		_, err := scoreOf(JSONSchema, "{}", schema)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line with %q", schema, err, want)
		}
	}
}

// Neither a schema that refers to itself nor deep values take endless time.
func TestSchemasThatReferToThemselves(t *testing.T) {
	for schema, want := range map[string]float64{
		`{"$ref": "#"}`: 0,
		`{"type": "array", "items": {"$ref": "#"}}`: 1,
	} {
		answer := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
		if got, err := scoreOf(JSONSchema, answer, schema); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", schema, got, err, want)
		}
	}
}

// Any text is either a schema or refused, and any answer is valid or not.
func FuzzJSONSchema(f *testing.F) {
	f.Add(person, "```json\n{}\n```")
	f.Add(`{"$ref": "#"}`, "[[]]")
	f.Add(`{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}`, "1")
	f.Add(`true`, "1 2")
	f.Fuzz(func(t *testing.T, schema, answer string) {
		got, err := scoreOf(JSONSchema, answer, schema)
		if err == nil && got != 0 && got != 1 {
			t.Fatalf("%q by %q: %v", answer, schema, got)
		}
	})
}
