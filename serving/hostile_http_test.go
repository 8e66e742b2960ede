package serving_test

import (
	"fmt"
	"strconv"
	"strings"
)

// post is a request whose body has its length, with more header lines.
func post(body string, lines ...string) string {
	return head("POST "+chat+" HTTP/1.1", append(lines, "Content-Length: "+strconv.Itoa(len(body)))...) + body
}

// head is a request's line and header.
func head(line string, lines ...string) string {
	var b strings.Builder
	b.WriteString(line + "\r\nHost: router\r\nContent-Type: application/json\r\n")
	for _, l := range lines {
		b.WriteString(l + "\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

const (
	noText     = "400 text"
	noBody     = "400 invalid_json"
	unknown    = "404 unknown_url"
	incomplete = "400 incomplete_body"
	tooMuch    = "413 body_too_large"
	served200  = "200 ok"
	notAllowed = "405 method_not_allowed"
)

// hostileLines are faults of the request line, and of what is no HTTP at all.
func hostileLines() []hostile {
	whole := func(line string) string { return head(line, "Content-Length: "+strconv.Itoa(len(ask))) + ask }
	return []hostile{
		{name: "nothing but line ends", raw: strings.Repeat("\r\n", 50), want: noText},
		{name: "a word", raw: "GET\r\n\r\n", want: noText},
		{name: "no version", raw: "GET /\r\n\r\n", want: noText},
		{name: "half a version", raw: "GET / HTTP/\r\n\r\n", want: noText},
		{name: "version 9.9", raw: whole("POST " + chat + " HTTP/9.9"), want: "505 text"},
		{name: "version 2.0 in words", raw: whole("POST " + chat + " HTTP/2.0"), want: "505 text"},
		{name: "version 1.2", raw: whole("POST " + chat + " HTTP/1.2"), want: served200},
		{name: "version 0.9", raw: whole("POST " + chat + " HTTP/0.9"), want: "505 text"},
		{name: "version 1.10", raw: whole("POST " + chat + " HTTP/1.10"), want: noText},
		{name: "version in lower case", raw: whole("POST " + chat + " http/1.1"), want: noText},
		{name: "method in lower case", raw: whole("post " + chat + " HTTP/1.1"), want: notAllowed},
		{name: "two spaces", raw: whole("POST  " + chat + " HTTP/1.1"), want: noText},
		{name: "tabs for spaces", raw: whole("POST\t" + chat + "\tHTTP/1.1"), want: noText},
		{name: "a space within the target", raw: whole("POST /v1/chat /completions HTTP/1.1"), want: noText},
		{name: "a space ahead", raw: " " + whole("POST "+chat+" HTTP/1.1"), want: noText},
		{name: "a line end ahead", raw: "\r\n" + whole("POST "+chat+" HTTP/1.1"), want: noText},
		{name: "method with @", raw: whole("P@ST " + chat + " HTTP/1.1"), want: noText},
		{name: "method with a null byte", raw: whole("PO\x00ST " + chat + " HTTP/1.1"), want: noText},
		{name: "method of 8 KB", raw: whole(strings.Repeat("X", 8<<10) + " " + chat + " HTTP/1.1"), want: notAllowed},
		{name: "no method", raw: whole(chat + " HTTP/1.1"), want: noText},
		{name: "target of 2 MB", raw: whole("POST /" + strings.Repeat("x", 2<<20) + " HTTP/1.1"), want: "431 text"},
		{name: "target of 30 KB", raw: whole("POST /" + strings.Repeat("x", 30<<10) + " HTTP/1.1"), want: unknown},
		{name: "query of 30 KB", raw: whole("POST " + chat + "?" + strings.Repeat("x", 30<<10) + " HTTP/1.1"), want: served200},
		{name: "target with a null byte", raw: whole("POST /v1\x00 HTTP/1.1"), want: noText},
		{name: "target with an escaped null byte", raw: whole("POST " + chat + "%00 HTTP/1.1"), want: unknown},
		{name: "target with a bad escape", raw: whole("POST /v1/%zz HTTP/1.1"), want: noText},
		{name: "target with raw bytes", raw: whole("POST /v1/\xff\xfe HTTP/1.1"), want: unknown},
		{name: "target without a slash", raw: whole("POST v1/chat/completions HTTP/1.1"), want: noText},
		{name: "an empty target", raw: whole("POST HTTP/1.1"), want: noText},
		{name: "a star", raw: whole("POST * HTTP/1.1"), want: unknown},
		{name: "OPTIONS of a star", raw: whole("OPTIONS * HTTP/1.1"), want: "200 text"},
		{name: "another's absolute target", raw: whole("POST http://evil.example/etc HTTP/1.1"), want: unknown},
		{name: "an absolute target of FTP", raw: whole("POST ftp://evil.example/etc HTTP/1.1"), want: unknown},
		{name: "an absolute target with a password", raw: whole("POST http://a:b@evil.example/etc HTTP/1.1"), want: unknown},
		{name: "an opaque target", raw: whole("POST mailto:a@b HTTP/1.1"), want: unknown},
		{name: "CONNECT of a host", raw: head("CONNECT evil.example:443 HTTP/1.1"), want: unknown},
		{name: "CONNECT of a path", raw: head("CONNECT " + chat + " HTTP/1.1"), want: notAllowed},
		{name: "TRACE", raw: head("TRACE " + chat + " HTTP/1.1"), want: notAllowed},
		{name: "a preface of HTTP/2", raw: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", want: unknown},
		{name: "a hello of TLS", raw: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x42", 300) + "\n\n", want: noText},
		{name: "a banner of SSH", raw: "SSH-2.0-OpenSSH_9.6\r\n\r\n", want: noText},
		{name: "a greeting of SOCKS", raw: "\x05\x01\x00\r\n\r\n", want: noText},
		{name: "a command of Redis", raw: "*1\r\n$4\r\nPING\r\n\r\n", want: noText},
		{name: "a command of SMTP", raw: "EHLO evil.example\r\n\r\n", want: noText},
		{name: "an answer for a request", raw: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", want: noText},
		{name: "bytes of every value", raw: everyByte() + "\r\n\r\n", want: noText},
		{name: "carriage returns alone", raw: strings.ReplaceAll(whole("POST "+chat+" HTTP/1.1"), "\r\n", "\r") + "\n\n", want: noText},
	}
}

func everyByte() string {
	var b [256]byte
	for i := range b {
		b[i] = byte(i)
	}
	return string(b[:])
}

// hostileFraming is faults of where a body ends: what smuggling is made of.
func hostileFraming() (list []hostile) {
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: router\r\n\r\n"
	chunked := func(line string) string {
		return head("POST "+chat+" HTTP/1.1", line) + chunk(ask) + "0\r\n\r\n"
	}
	n := strconv.Itoa(len(ask))
	for value, want := range map[string]string{
		"-1": noText, "+" + n: noText, "0x10": noText, "1e3": noText, "99999999999999999999": noText, "1 2": noText,
		"５": noText, "7.0": noText, n + "," + n: noText, n + ", 6": noText, "": noText, "abc": noText, n + ";": noText, "\x0b" + n: noText,
		"9223372036854775807": tooMuch, "1048577": tooMuch, "00000000000000000000" + n: served200,
	} {
		list = append(list, hostile{name: fmt.Sprintf("length %q", value), raw: head("POST "+chat+" HTTP/1.1", "Content-Length: "+value) + ask, want: want})
	}
	for value, want := range map[string]string{
		"chunked, chunked": "501 text", "identity": "501 text", "chunked, identity": "501 text", "gzip, chunked": "501 text", "xchunked": "501 text",
		"chunked\x0b": noText, "\x0bchunked": noText, "\"chunked\"": "501 text", "": "501 text", "chunked;q=1": "501 text", "chunked\x00": noText, "сhunked": "501 text",
	} {
		list = append(list, hostile{name: fmt.Sprintf("coding %q", value), raw: chunked("Transfer-Encoding: " + value), want: want})
	}
	return append(list, []hostile{
		{name: "length and coding", raw: head("POST "+chat+" HTTP/1.1", "Content-Length: 4", "Transfer-Encoding: chunked") + chunk(ask) + "0\r\n\r\n" + smuggled, want: served200},
		{name: "coding and length", raw: head("POST "+chat+" HTTP/1.1", "Transfer-Encoding: chunked", "Content-Length: 4") + chunk(ask) + "0\r\n\r\n" + smuggled, want: served200},
		{name: "a smuggled request behind an empty chunk", raw: head("POST "+chat+" HTTP/1.1", "Content-Length: 60", "Transfer-Encoding: chunked") + "0\r\n\r\n" + smuggled, want: noBody},
		{name: "two lengths that differ", raw: post(ask, "Content-Length: 4"), want: noText},
		{name: "two lengths that agree", raw: post(ask, "Content-Length: "+n), want: served200},
		{name: "two codings", raw: chunked("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), want: "501 text"},
		{name: "a coding and its disguise", raw: chunked("Transfer-Encoding: chunked\r\nTransfer-Encoding: x"), want: "501 text"},
		{name: "a space before the colon", raw: chunked("Transfer-Encoding : chunked"), want: noText},
		{name: "a folded coding", raw: chunked("X: y\r\n Transfer-Encoding: chunked"), want: noBody + ", " + noText},
		{name: "a coding with an underline", raw: head("POST "+chat+" HTTP/1.1", "Transfer_Encoding: chunked") + chunk(ask) + "0\r\n\r\n", want: noBody + ", " + noText},
		{name: "a coding in version 1.0", raw: head("POST "+chat+" HTTP/1.0", "Transfer-Encoding: chunked") + chunk(ask) + "0\r\n\r\n", want: noBody},
		{name: "a null byte before the length", raw: head("POST "+chat+" HTTP/1.1", "\x00Content-Length: "+n) + ask, want: noText},
		{name: "neither length nor coding", raw: head("POST "+chat+" HTTP/1.1") + ask, want: noBody},
		{name: "a length too small", raw: head("POST "+chat+" HTTP/1.1", "Content-Length: 4") + ask, want: noBody},
		{name: "a body behind GET", raw: head("GET /v1/models HTTP/1.1", "Content-Length: "+strconv.Itoa(len(smuggled))) + smuggled, want: "200 page"},
		{name: "a request behind a whole one", raw: post(ask) + smuggled, want: served200 + ", " + unknown},
		{name: "bytes behind a whole request", raw: post(ask) + "\x00\x01\x02\r\n\r\n", want: served200 + ", " + noText},
		{name: "a body that does not come", raw: head("POST "+chat+" HTTP/1.1", "Content-Length: 500") + ask, want: "408 body_timeout"},
		{name: "a body that breaks off", raw: head("POST "+chat+" HTTP/1.1", "Content-Length: 500") + ask, hangup: true},
	}...)
}

func chunk(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// hostileChunks are faults within a chunked body.
func hostileChunks() (list []hostile) {
	n := fmt.Sprintf("%x", len(ask))
	for name, c := range map[string]struct{ body, want string }{
		"no number":                        {"z\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"a negative number":                {"-5\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"a number with 0x":                 {"0x" + n + "\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"a number too long":                {"fffffffffffffffff\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"the largest number":               {"7fffffffffffffff\r\n" + ask + "\r\n0\r\n\r\n", "408 body_timeout"},
		"a number of 64 bits":              {"ffffffffffffffff\r\n" + ask + "\r\n0\r\n\r\n", "408 body_timeout"},
		"no number at all":                 {"\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"a space in the number":            {n[:1] + " " + n[1:] + "\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"too many bytes":                   {n + "\r\n" + ask + "more\r\n0\r\n\r\n", incomplete},
		"too few bytes":                    {n + "\r\nfew\r\n0\r\n\r\n", "408 body_timeout"},
		"no end of the bytes":              {n + "\r\n" + ask + "0\r\n\r\n", incomplete},
		"an endless extension":             {n + ";" + strings.Repeat("x", 64<<10) + "\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"many extensions":                  {strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\nx\r\n", 100) + "0\r\n\r\n", incomplete},
		"a bare line feed in an extension": {n + ";a\nb\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
		"no last chunk":                    {chunk(ask), "408 body_timeout"},
		"an empty body":                    {"0\r\n\r\n", noBody},
		"more than the limit":              {strings.Repeat(chunk(strings.Repeat(" ", 64<<10)), 20) + "0\r\n\r\n", tooMuch},
		"a trailer that is no header":      {chunk(ask) + "0\r\nno colon\r\n\r\n", incomplete},
		"a trailer of 2 MB":                {chunk(ask) + "0\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", incomplete},
		"a null byte in the number":        {"\x00" + n + "\r\n" + ask + "\r\n0\r\n\r\n", incomplete},
	} {
		list = append(list, hostile{name: "chunks: " + name, raw: head("POST "+chat+" HTTP/1.1", "Transfer-Encoding: chunked") + c.body, want: c.want})
	}
	return list
}
