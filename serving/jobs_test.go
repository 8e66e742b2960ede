package serving_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/wire"
)

// pair is an engine of a model of images and sounds, which answers with what it got.
func pair(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(`{"name":"inner","platform":"test","inputs":[]}`))), nil
	}
	if strings.HasPrefix(r.URL.Path, inference.PathPrefix) {
		q, err := inference.ReadRequest(r.Header, body)
		if err != nil {
			return nil, err
		}
		in := q.Inputs[0]
		in.Name = "echo"
		in.Binary = q.Wants("echo")
		if !in.Binary {
			in.Data = []byte("[1,2]")[:2*in.Rows()+1]
			in.Data = append(in.Data[:len(in.Data)-1:len(in.Data)-1], ']')
		}
		response := reply(http.StatusOK, jsonType, nil)
		text, err := (&inference.Answer{Model: "inner", Outputs: []inference.Tensor{in}}).Write(response.Header)
		if err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(strings.NewReader(string(text)))
		return response, nil
	}
	var q struct {
		Inputs []map[string]string `json:"inputs"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	var data []map[string]any
	for _, in := range q.Inputs {
		if strings.Contains(in["image"], "broken") {
			return reply(http.StatusBadRequest, jsonType, io.NopCloser(strings.NewReader(`{"error":{"message":"\"image\" must be a PNG or JPEG in base 64: unexpected EOF","type":"invalid_request_error","param":"inputs[0].image","code":"invalid_value"}}`))), nil
		}
		data = append(data, map[string]any{"label": in["image"] + "/" + in["audio"], "probs": []int{1}})
	}
	text, err := json.Marshal(map[string]any{"data": data, "usage": map[string]int{"prompt_tokens": 5}})
	if err != nil {
		return nil, err
	}
	return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(string(text)))), nil
}

// batched answers batches of jobs as pair does, and all else as the transport.
func batched(rt http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || strings.HasPrefix(r.URL.Path, inference.PathPrefix) {
			return pair(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"inputs":[`) {
			return pair(r)
		}
		return rt.RoundTrip(r)
	})
}

// withPair adds a model of images and sounds to a server.
func withPair(o *serving.Options) {
	for i := range o.Backends {
		o.Backends[i].Transport = batched(o.Backends[i].Transport)
	}
	o.Config.Log.Access = config.AccessAll
	o.Modality = jobs.Config{Policy: "optimized", Models: []jobs.Model{{
		Name: "pair", Modalities: []string{"image", "audio"},
		Options: []jobs.Option{{Variant: "small", Modalities: []string{"image"}}, {Variant: "large", Modalities: []string{"image", "audio"}}},
		Tasks:   []jobs.Task{{Name: "copy", Quality: map[string]float64{"small": 0.75, "large": 1}}},
		Workers: []jobs.Worker{{Name: "a", Latency: [][]float64{{100, 200}, {500, 1000}}, Replicas: []int{smallOnA, largeA}}},
	}}}
}

const classify = "/v1/gearshift/classify"

// TestJobs: a list of inputs is a job, with what it was answered by in body, header, log and metrics.
func TestJobs(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, `{"data":[]}`), withPair)
	w := g.do("POST", classify, `{"model":"pair","inputs":[{"image":"i","audio":"a"},{"image":"j"}],"min_quality":0.8,"total_ms":5000}`, "X-Gearshift-Explain", "1", "X-Request-Id", "seven")
	var a struct {
		ID   string
		Data []struct {
			Index          int
			Label, Variant string
			Modalities     []string
		}
		Job struct {
			Kept     bool
			Quality  float64
			Strategy map[string]int
			Explain  struct{ Options []struct{ Variant string } }
		}
		Usage struct {
			Total int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(a.Data) != 2 || a.Data[0].Label != "i/a" || a.Data[1].Label != "j/" || fmt.Sprint(a.Data[1].Modalities) != "[image]" || a.ID != "classify-seven" || a.Usage.Total != 10 {
		t.Errorf("%s", w.Body)
	}
	if !a.Job.Kept || a.Job.Quality != 0.875 || fmt.Sprint(a.Job.Strategy) != "map[large:1 small:1]" || len(a.Job.Explain.Options) != 2 {
		t.Errorf("job %+v", a.Job)
	}
	if h := w.Header(); h.Get("X-Gearshift-Strategy") != "small=1, large=1" || !strings.Contains(h.Get("X-Gearshift-Explain"), `"waiting":`) {
		t.Errorf("header %v", h)
	}
	if log := g.logs.String(); !strings.Contains(log, `outcome=completed status=200 task=copy model=pair job=kept inputs=2 min_quality=0.8 total_deadline_ms=5000`) || !strings.Contains(log, `strategy="small=1, large=1" quality=0.875 worker=a`) {
		t.Errorf("log %s", log)
	}
	for _, want := range []string{`gearshift_requests_total{outcome="completed",task="copy",variant="small"} 1`, `gearshift_requests_total{outcome="completed",task="copy",variant="large"} 1`,
		`gearshift_deadlines_total{result="met",task="copy",variant="large"} 1`, `gearshift_jobs_total{model="pair",outcome="kept",task="copy"} 1`, `gearshift_job_requests_total{model="pair",variant="small"} 1`,
		`gearshift_job_quality_total{kind="given",model="pair"} 1.75`, `gearshift_job_quality_total{kind="asked",model="pair"} 1.6`, `gearshift_jobs_waiting{model="pair",worker="a"} 0`, "gearshift_job_plan_seconds_count"} {
		if text := g.do("GET", "/metrics", "").Body.String(); !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	if text := g.do("GET", "/v1/gearshift/status", "").Body.String(); !strings.Contains(text, `"jobs":[{"model":"pair","worker":"a","waiting":0,"running":false,"backlog_ms":0,`) || !strings.Contains(text, `"last_quality":`) {
		t.Errorf("status %s", text)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d places are held after the job", n)
	}
}

// TestJobsAreRefused: with one clear line each, in the shape of the server's errors.
func TestJobsAreRefused(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, `{"data":[]}`), withPair)
	for body, want := range map[string]string{
		`{"model":"pair","inputs":[]}`:                                                         `400 invalid_value inputs "inputs" is empty`,
		`{"model":"pair","inputs":[{"smell":"x"}]}`:                                            `400 unknown_modality inputs[0].smell input 0: pair takes no "smell"; it takes image, audio`,
		`{"model":"pair","inputs":[{"audio":"x"}]}`:                                            `400 input_missing inputs input 0 has audio, which is not enough for any of small (image), large (image, audio)`,
		`{"model":"large","inputs":[{"image":"x"}]}`:                                           `400 input_missing inputs input 0 has image, which is not enough for any of large (image, audio)`,
		`{"model":"pair","inputs":[{"image":"x"}],"min_quality":0.9}`:                          `400 quality_not_found min_quality no strategy reaches a mean quality of 0.9; the best for these inputs is small with 0.75`,
		`{"model":"pair","inputs":[{"image":"x"},{"image":"x"},{"image":"x"}]}`:                `400 job_too_large inputs 3 inputs are too many for one job; at most 2 are answered together, so split it`,
		`{"model":"pair","inputs":[{"image":"x","audio":"y"}],"min_quality":1,"total_ms":100}`: `429 job_dropped  the job cannot be answered in time`,
		`{"model":"pair","inputs":[{"image":"ok"},{"image":"broken"}]}`:                        `400 invalid_value inputs[0].image input 0: "image" must be a PNG or JPEG in base 64: unexpected EOF`,
		`{"model":"pair","inputs":[{"image":"x"}],"total_ms":-1}`:                              `400 invalid_deadline total_ms "total_ms" is -1; it must be a positive number of milliseconds`,
		`{"model":"none","inputs":[{"image":"x"}]}`:                                            `404 model_not_found model there is no model "none"`,
	} {
		w := g.do("POST", classify, body)
		message, _, param, code := readError(t, w.Body.Bytes())
		if got := fmt.Sprintf("%d %s %s %s", w.Code, code, param, message); !strings.HasPrefix(got, want) || strings.Contains(message, "\n") {
			t.Errorf("%s:\n%s\nwant %s", body, got, want)
		}
		if w.Code == 429 && (w.Header().Get("Retry-After") == "" || w.Header().Get("X-Gearshift-Reason") != "job_dropped") {
			t.Errorf("header of a dropped job: %v", w.Header())
		}
	}
}

// TestSingleInputsGoTheirWay: what is no list is routed and passed on as other requests are, to a
// variant that needs nothing the input lacks, and without what the variant leaves out.
func TestSingleInputsGoTheirWay(t *testing.T) {
	var got string
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		got = string(body)
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(`{"data":[{"label":"single"}]}`))), err
	}), withPair, func(o *serving.Options) {
		for _, i := range []int{smallOnA, smallOnB} {
			o.Backends[i].Cut = wire.Cut{Without: wire.Sounds | wire.Texts}
		}
	})
	for _, c := range []struct{ body, variant, modalities, sent string }{
		{`{"model":"auto","image":"i","audio":"a"}`, "small", "image", `{"model":"small","image":"i","audio":null}`},
		{`{"model":"large","image":"i","audio":"a","input":"t"}`, "large", "text,image,audio", `{"model":"large","image":"i","audio":"a","input":"t"}`},
		{`{"model":"small","input":"t","image":"i"}`, "small", "image", `{"model":"small","input":null,"image":"i"}`},
	} {
		w := g.do("POST", classify, c.body)
		if h := w.Header(); w.Code != 200 || h.Get("X-Gearshift-Variant") != c.variant || h.Get("X-Gearshift-Modalities") != c.modalities || got != c.sent {
			t.Errorf("%s: %d, %v, sent %s", c.body, w.Code, h, got)
		}
	}
	_ = g.core.SetPolicy(chooses(large))
	if w := g.do("POST", classify, `{"model":"auto","image":"i"}`); w.Code != 200 || w.Header().Get("X-Gearshift-Variant") != "small" {
		t.Errorf("an image alone goes to %s, %d %s", w.Header().Get("X-Gearshift-Variant"), w.Code, w.Body)
	}
	for body, want := range map[string]string{
		`{"model":"large","image":"i"}`: "the input has image, which is not enough for the model",
		`{"model":"auto","audio":"a"}`:  "the input has audio, which is not enough",
		`{"model":"auto"}`:              "the input has no text, image, audio or video",
	} {
		w := g.do("POST", classify, body)
		if message, _, _, code := readError(t, w.Body.Bytes()); w.Code != 400 || code != "input_missing" || message == "" || !strings.HasPrefix(message, want) {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// TestASingleInputNamesTheModel: its name stands for the policy's choice among its variants, for its
// own task and within the floor and the key; elsewhere it stays no model.
func TestASingleInputNamesTheModel(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"all": {}, "big": {Grants: access.Grants{Models: []string{"large"}}}})
	var sent string
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		sent = string(body)
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(`{"data":[{"label":"single"}]}`))), err
	}), withPair, withKeys(file), func(o *serving.Options) {
		m := &o.Modality.Models[0] // without large
		m.Options, m.Tasks[0].Quality = m.Options[:1], map[string]float64{"small": 0.75}
		m.Workers[0].Latency, m.Workers[0].Replicas = m.Workers[0].Latency[:1], m.Workers[0].Replicas[:1]
	})
	_ = g.core.SetPolicy(chooses(large))
	all := bearing(secrets["all"])
	const single = `{"model":"pair","image":"i","audio":"a"}`
	if w := g.do("POST", classify, single, all...); w.Code != 200 || w.Header().Get("X-Gearshift-Variant") != "small" || !strings.Contains(sent, `"model":"small"`) {
		t.Errorf("%d, %v, sent %s", w.Code, w.Header(), sent)
	}
	if log := g.logs.String(); !strings.Contains(log, "task=copy") {
		t.Errorf("not of the model's task: %s", log)
	}
	if w := g.do("POST", classify, `{"model":"auto","image":"i"}`, all...); w.Header().Get("X-Gearshift-Variant") != "large" {
		t.Errorf("auto is bound: %v", w.Header())
	}
	for _, c := range []struct {
		path, body, want string
		header           []string
	}{
		{classify, `{"model":"pair","audio":"a"}`, "400 input_missing the input has audio, which is not enough", all},
		{classify, single, `400 quality_not_found no variant of "pair" has quality 0.9 for task "copy"`, append(all, "X-Gearshift-Min-Quality", "0.9")},
		{classify, single, "403 model_not_allowed this API key may use no variant of the model; there are auto, large", bearing(secrets["big"])},
		{classify, `{"model":"pear","image":"i"}`, `404 model_not_found there is no model "pear"; there are auto, small, large, and to classify inputs pair`, all},
		{chat, `{"model":"pair","messages":[{"role":"user","content":"hello"}]}`, `404 model_not_found there is no model "pair"; there are auto, small, large, and to classify inputs pair`, all},
	} {
		w := g.do("POST", c.path, c.body, c.header...)
		message, _, _, code := readError(t, w.Body.Bytes())
		if got := fmt.Sprintf("%d %s %s", w.Code, code, message); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s; want %s", c.body, got, c.want)
		}
	}
}

// TestInference: the Open Inference Protocol at the router, in JSON and with binary tensors.
func TestInference(t *testing.T) {
	g := newRig(t, nil, withPair)
	text := `{"id":"seven","inputs":[{"name":"image","datatype":"UINT8","shape":[2],"data":[1,2]},{"name":"audio","datatype":"UINT8","shape":[2],"data":[1,2]}],"parameters":{"min_quality":0.75,"total_ms":5000}}`
	w := g.do("POST", "/v2/models/pair/infer", text)
	if a, err := inference.ReadAnswer(w.Header(), w.Body.Bytes()); err != nil || w.Code != 200 || a.Model != "pair" || a.ID != "seven" || string(a.Output("echo").Data) != "[1,2]" || string(a.Parameters["kept"]) != "true" || string(a.Parameters["strategy"]) != `"large=2"` {
		t.Errorf("%v, %d %s", err, w.Code, w.Body)
	}
	body, length := binaryRequest(2)
	w = g.do("POST", "/v2/models/pair/versions/1/infer", body, "Content-Type", "application/octet-stream", inference.HeaderLength, strconv.Itoa(length))
	if a, err := inference.ReadAnswer(w.Header(), w.Body.Bytes()); err != nil || w.Code != 200 || !a.Output("echo").Binary || string(a.Output("echo").Data) != "ab" || w.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%v, %d %q", err, w.Code, w.Body)
	}
	for path, want := range map[string]string{
		"/v2/models/pair": `200 {"name":"pair","platform":"test","inputs":[]}`, "/v2/models/pair/ready": `200 {"name":"pair","ready":true}`,
		"/v2/health/live": "200 ", "/v2/health/ready": "200 ", "/v2": `200 {"extensions":["binary_tensor_data"]`,
		"/v2/models/none": `404 {"error":"there is no model \"none\" that takes tensors; there are pair","code":"model_not_found"`, "/v2/models/none/ready": "404 ",
		"/v2/models/pair/config": `404 {"error":"there is no /v2/models/pair/config here; of pair there are its metadata, /ready and /infer","code":"model_not_found"`,
	} {
		w := g.do("GET", path, "")
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
	if log := g.logs.String(); strings.Count(log, "operation=infer") != 2 {
		t.Errorf("log %s", log)
	}
	g.core.Ledger().SetUp(smallOnA, false)
	if w := g.do("GET", "/v2/models/pair/ready", ""); w.Code != 503 {
		t.Errorf("without a worker: %d", w.Code)
	}
	if w := g.do("POST", "/v2/models/pair/infer", text); w.Code != 503 || !strings.Contains(w.Body.String(), `"code":"no_replica"`) {
		t.Errorf("without a worker: %d %s", w.Code, w.Body)
	}
}

// binaryRequest is a request of so many rows with a binary image, and the length of its JSON.
func binaryRequest(rows int) (body string, length int) {
	text := fmt.Sprintf(`{"inputs":[{"name":"image","datatype":"UINT8","shape":[%d],"parameters":{"binary_data_size":%[1]d}}],"parameters":{"binary_data_output":true}}`, rows)
	return text + "abcdefgh"[:rows], len(text)
}

// TestPlans: what would be done with a job is said before its inputs are sent.
func TestPlans(t *testing.T) {
	g := newRig(t, nil, withPair)
	for body, want := range map[string]string{
		`{"model":"pair","size":2,"total_ms":1100}`:                               `200 {"model":"pair","task":"copy","inputs":[{"index":0,"variant":"large","modalities":["image","audio"]},{"index":1,"variant":"large","modalities":["image","audio"]}],"strategy":{"large":2},"quality":1,"finish_ms":1000,"min_quality":0,"total_ms":1100,"kept":true,"worker":"a"}`,
		`{"model":"pair","size":1,"total_ms":200}`:                                `"variant":"small","modalities":["image"]}],"strategy":{"small":1},"quality":0.75,"finish_ms":100`,
		`{"model":"pair","inputs":[["image"],["image","audio"]],"total_ms":5000}`: `"strategy":{"large":1,"small":1}`,
		`{"model":"pair","size":2,"min_quality":1,"total_ms":300}`:                `"inputs":[],"strategy":{},"quality":0,"finish_ms":0,"min_quality":1,"total_ms":300,"kept":false,"why":"no worker can answer it in time with that quality"`,
		`{"model":"pair"}`:                                         `400 {"error":{"message":"\"inputs\" is empty`,
		`{"model":"pair","size":-1}`:                               `\"size\" is -1`,
		`{"model":"pair","size":9}`:                                `9 inputs are too many for one job; at most 2`,
		`{"model":"pair","size":1,"inputs":[["image"],["image"]]}`: `\"size\" is 1, and \"inputs\" has 2`,
		`{"model":"pair","inputs":[["smell"]]}`:                    `input 0: pair takes no \"smell\"`,
		`{"model":"none","size":1}`:                                `there is no model \"none\" whose inputs are chosen; there are pair`,
		`{"model":"pair","size":1,"weight":3}`:                     `there is no \"weight\" here`,
	} {
		w := g.do("POST", "/v1/gearshift/plan", body)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant %s", body, got, want)
		}
	}
}

// TestKeysBoundJobs: a key may use the variants that it names, and counts as the tenant.
func TestKeysBoundJobs(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"ann": {}})
	g := newRig(t, nil, withPair, withKeys(file))
	if w := g.do("POST", classify, `{"model":"pair","inputs":[{"image":"x"}]}`); w.Code != 401 {
		t.Errorf("without a key: %d", w.Code)
	}
	if w := g.do("POST", "/v2/models/pair/infer", `{}`); w.Code != 401 || !strings.Contains(w.Body.String(), `{"error":"no valid API key`) {
		t.Errorf("without a key: %d %s", w.Code, w.Body)
	}
	if w := g.do("GET", "/v2/health/live", ""); w.Code != 200 {
		t.Errorf("a probe without a key: %d", w.Code)
	}
	if w := g.do("POST", classify, `{"model":"pair","inputs":[{"image":"x"}]}`, "Authorization", "Bearer "+secrets["ann"]); w.Code != 200 || !strings.Contains(g.logs.String(), "tenant=ann operation=classify") {
		t.Errorf("with a key: %d %s", w.Code, w.Body)
	}
}

// TestHostileTensors: whatever bytes come with binary tensors, the answer is one line that says what
// is wrong with them, and nothing is held after it.
func TestHostileTensors(t *testing.T) {
	g := newRig(t, nil, withPair)
	body, length := binaryRequest(2)
	for name, c := range map[string]struct{ body, length, want string }{
		"cut in its data":         {body[:len(body)-1], strconv.Itoa(length), "400 input \"image\": binary_data_size is 2, and 1"},
		"more than its tensors":   {body + "c", strconv.Itoa(length), "400 3 bytes follow the JSON"},
		"a length of text":        {body, "many", `400 the body is no inference request: Inference-Header-Content-Length is "many"`},
		"a length below zero":     {body, "-1", "400 the body is no inference request"},
		"a length beyond the end": {body, strconv.Itoa(len(body) + 1), "400 the body is no inference request"},
		"a length beyond numbers": {body, strings.Repeat("9", 4000), "400 "},
		"a length of zero":        {body, "0", "400 the body is no inference request"},
		"a length too short":      {body, strconv.Itoa(length - 1), "400 the body is no inference request"},
		"no length":               {body, "", "400 the body is no inference request"},
		"no body":                 {"", "0", "400 the body is no inference request"},
		"no JSON":                 {strings.Repeat("\x00", 100), "100", "400 the body is no inference request"},
		"a shape that overflows":  {tensorOf("[4294967296,4294967296]", "0"), "*", "400 input \"image\" has the shape [4294967296 4294967296]"},
		"a shape of very much":    {tensorOf("[2147483647]", "0"), "*", "400 input \"image\" has 0 bytes"},
		"a shape of fractions":    {tensorOf("[1.5]", "0"), "*", "400 input 0: shape: [1.5]; want a list of whole numbers"},
		"a shape of nothing":      {tensorOf("[]", "0"), "*", "400 input \"image\" has no dimensions"},
		"a size beyond numbers":   {tensorOf("[1]", strings.Repeat("9", 400)), "*", "400 input \"image\": binary_data_size is 9999"},
		"a size of text":          {tensorOf("[1]", `"1"`), "*", "400 input \"image\": binary_data_size is \"1\""},
		"deep lists":              {`{"inputs":[{"name":"image","datatype":"UINT8","shape":[1],"data":` + nested("[", "]", 9000) + `}]}`, "", "400 input \"image\" has data of another number of elements"},
		"very deep lists":         {`{"inputs":` + nested("[", "]", 100_000) + `}`, "", "400 the body is no inference request"},
		"very many tensors":       {`{"inputs":[` + manyTensors(300) + `]}`, "", "400 more than 256 inputs"},
	} {
		if c.length == "*" {
			c.length = strconv.Itoa(len(c.body))
		}
		r := httptest.NewRequest("POST", "/v2/models/pair/infer", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/octet-stream")
		if c.length != "" {
			r.Header.Set(inference.HeaderLength, c.length)
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		var said struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil || !strings.HasPrefix(fmt.Sprintf("%d %s", w.Code, said.Error), c.want) || strings.Contains(said.Error, "\n") || len(said.Error) > 2000 {
			t.Errorf("%s: %d %.300s; want %s", name, w.Code, w.Body, c.want)
		}
	}
	if w := g.do("POST", "/v2/models/pair/infer", body, "Content-Type", "text/plain"); w.Code != 415 {
		t.Errorf("a body of text: %d %s", w.Code, w.Body)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d places are held", n)
	}
}

func tensorOf(shape, size string) string {
	return `{"inputs":[{"name":"image","datatype":"UINT8","shape":` + shape + `,"parameters":{"binary_data_size":` + size + `}}]}`
}

func manyTensors(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"name":"image_%d","datatype":"UINT8","shape":[1],"data":[1]}`, i))
	}
	return strings.Join(list, ",")
}

// TestBatchesGoTheWayOfRequests: a batch takes a place on its replica while its engine is at work, and
// has the client's ID. Where the engine fails, another replica of the variant answers, and health, metrics and
// log have it as for any request. An engine that keeps failing gets no more jobs.
func TestBatchesGoTheWayOfRequests(t *testing.T) {
	const job = `{"model":"small","inputs":[{"image":"i"}],"total_ms":5000}`
	var g *rig
	var seen []string
	at := func(replica int, broken bool) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, fmt.Sprint(replica, " ", g.core.Ledger().InFlightOn(replica), " ", r.Header.Get("X-Request-Id"), " ", r.Header.Get("Content-Type")))
			if broken {
				return reply(http.StatusInternalServerError, jsonType, io.NopCloser(strings.NewReader(`{"error":{"message":"on fire"}}`))), nil
			}
			return pair(r)
		})
	}
	g = newRig(t, nil, withPair, func(o *serving.Options) {
		o.Backends[smallOnA].Transport, o.Backends[smallOnB].Transport = at(smallOnA, true), at(smallOnB, false)
	})
	w := g.do("POST", classify, job, "X-Request-Id", "seven")
	want := []string{fmt.Sprint(smallOnA, " 1 seven application/json"), fmt.Sprint(smallOnB, " 1 seven application/json")}
	if w.Code != http.StatusOK || !slices.Equal(seen, want) || !strings.Contains(w.Body.String(), `"worker":"b","batches":2,"failures":1`) {
		t.Errorf("%d %s; asked %q, want %q", w.Code, w.Body, seen, want)
	}
	text := g.do("GET", "/metrics", "").Body.String()
	for _, want := range []string{`gearshift_retries_total{reason="status",to="replica"} 1`, `gearshift_job_batch_failures_total{model="pair",worker="a"} 1`, `gearshift_requests_total{outcome="completed",task="copy",variant="small"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	for range 20 {
		if w = g.do("POST", classify, job); w.Code != http.StatusOK {
			break
		}
	}
	if g.core.Ledger().State(smallOnA) == fleet.Up || w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no worker of the model is up") {
		t.Errorf("the engine that fails is %v; %d %s", g.core.Ledger().State(smallOnA), w.Code, w.Body)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d places are held", n)
	}
}
