package scoring

// scoreOf values one answer by a reference: the right answer, with JSONSchema the schema, with
// Agreement the largest size's answer. The error says why the reference cannot be used.
func scoreOf(kind Kind, answer, reference string) (float64, error) {
	r := Reference{Answers: []string{reference}}
	if kind == JSONSchema {
		r = Reference{Schema: []byte(reference)}
	}
	score, err := New(kind, r)
	if err != nil {
		return 0, err
	}
	return score(answer), nil
}
