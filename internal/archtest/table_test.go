package archtest

// room is one package's row of the import table.
type room struct {
	path string
	// may lists what the package's own code may import of this module; its
	// tests may import every room above it as well.
	may []string
	why string // it may not import more
}

// table lists every room, each below all that it may import, so that it also
// proves the absence of cycles.
var table = []room{
	{"router/fleet", nil,
		"facts are the bottom: whoever counts requests must not drag in a policy, a simulator or a server"},
	{"router/nn", nil,
		"a forward pass is arithmetic: it serves any observation and any learner"},
	{"router/observation", []string{"router/fleet"},
		"the simulator and the live router encode through it, so it may know neither"},
	{"router/profile", []string{"router/fleet"},
		"a latency model is data about a replica: simulator and policies both price with it"},
	{"router/balance", []string{"router/fleet", "router/profile"},
		"the choice of a replica comes after the policy's and does not look at it"},
	{"router/policy", []string{"router/fleet", "router/observation", "router/nn", "router/profile"},
		"a policy is pure: it meets the simulator and the server through the same interface, and neither in person"},
	{"router/admission", []string{"router/fleet", "router/profile"},
		"whether a request is begun is a rule on a view: it chooses nothing, and serves nobody"},
	{"router", []string{"router/fleet", "router/observation"},
		"the core joins view, policy, balancer and lease by their interfaces, so that policies plug in from outside"},
	{"router/conformance", []string{"router", "router/fleet"},
		"a kit for whoever writes a policy or a balancer: it knows their interfaces and no implementation"},
	{"workloads", []string{"router/fleet"},
		"requests arrive in the same way whoever answers them"},
	{"env/engine", []string{"router/fleet", "router/profile"},
		"the simulated backend runs an engine in real time and must not link the environment with it"},
	{"router/drift", []string{"router/fleet", "router/profile"},
		"a profile is held against what comes of it: it is told of tokens and times, by a server or a simulator"},
	{"env", []string{"env/engine", "router/fleet", "router/observation", "router/profile", "router/drift", "router/balance", "workloads"},
		"the environment offers actions to any learner and is judged by any policy: it imports no learner, no router core"},
	{"env/envtest", []string{"env", "router/fleet"},
		"a kit for whoever changes the environment: it knows the contract and no learner"},
	{"env/evaluation", []string{"env", "workloads", "router/fleet"},
		"a report judges deciders through its own interface, learned or not"},
	{"env/evaluation/logged", []string{"env", "env/evaluation", "workloads", "router/fleet", "router/profile"},
		"what was logged is judged by the same deciders and the same simulator, whoever logged it"},
	{"env/fit", []string{"env/engine", "router/profile"},
		"a log of one engine's requests is explained by one engine: no router, no fleet, no scenario"},
	{"env/fit/steady", []string{"env/fit", "router/profile"},
		"controlled loads are explained by the latency model alone: nothing is simulated, nothing measured"},
	{"env/planner", []string{"env", "env/engine", "workloads", "router/fleet", "router/profile"},
		"a planner is a decider that simulates: it takes any base through its own interface, and no learner"},
	{"env/evaluation/report", nil,
		"a page of tables and figures knows nothing of what was measured: whoever measured fills it"},
	{"rl", []string{"router/nn"},
		"the training loop sees an Env and a Learner, so that another environment or learner plugs in"},
	{"rl/rltest", []string{"rl", "router/nn"},
		"a kit for whoever writes a learner: it knows the interface and no implementation"},
	{"rl/adam", nil,
		"the optimiser moves numbers, whatever they weigh"},
	{"rl/dqn", []string{"rl", "rl/adam", "router/nn"},
		"a learner learns from batches: where they come from is the loop's business"},
	{"checkpoints/onnxfile", nil,
		"a file format is bytes, whatever network it holds"},
	{"internal/durable", nil,
		"a file appears whole, and stays, in the same way whoever writes it"},
	{"checkpoints", []string{"router/nn", "router/observation", "internal/durable"},
		"a stored policy can be read without the code that trained it"},
	{"checkpoints/onnx", []string{"checkpoints", "router/nn", "checkpoints/onnxfile"},
		"a file of another format holds a stored policy: what runs or judges it is not its business"},
	{"router/ort", nil,
		"a network of another kind is met through the policy's own interface: the model comes to it as bytes"},
	{"serving/tokens", nil,
		"an estimate is made of bytes, whatever they are a prompt of"},
	{"serving/wire", []string{"serving/tokens"},
		"the OpenAI wire format is bytes and words, whoever reads or writes it"},
	{"serving/setting", nil,
		"a value of a variable or a file is text, whatever it is for"},
	{"serving/address", []string{"serving/setting"},
		"where a server answers is a matter of its URL's text"},
	{"serving/backend", []string{"router/fleet", "router/profile", "env/engine", "serving/wire", "serving/address", "serving/setting"},
		"a backend answers one replica's requests; env/engine is for the simulated one alone"},
	{"serving/backend/tokenizer", nil,
		"text becomes numbers in the same way whoever asks"},
	{"serving/models", []string{"checkpoints/onnxfile"},
		"weights and files are made without a look at what computes them"},
	{"serving/backend/decoder", []string{"serving/backend", "serving/wire", "serving/backend/tokenizer"},
		"a scheduler of sequences meets what computes through its own interface"},
	{"serving/backend/classifier", []string{"serving/backend", "serving/wire", "serving/backend/tokenizer"},
		"a queue of inputs meets what computes through its own interface"},
	{"serving/backend/onnx", []string{"serving/backend/decoder", "serving/backend/classifier", "checkpoints/onnxfile"},
		"it computes steps: which sequences are in them is the engine's business"},
	{"serving/engineserver", []string{"router/fleet", "serving/wire", "serving/backend"},
		"it stands in for an inference server, and knows no router"},
	{"serving/caller", []string{"serving/wire", "serving/address", "serving/setting"},
		"a client knows a server by its URL: what is measured of an answer is its user's business"},
	{"serving/replay", []string{"router/fleet", "workloads", "serving/caller", "serving/wire"},
		"it is a client: it knows a server by its URL, and takes requests where the simulator takes them"},
	{"serving/measure", []string{"serving/caller", "serving/wire"},
		"it is a client of an engine: it times what comes back, and knows no model of it"},
	{"serving/listing", nil,
		"a list of models is text, whoever asked for it"},
	{"serving/complaint", nil,
		"what an error is about stands in its text, whoever gets it"},
	{"serving/health", []string{"router/fleet", "serving/listing"},
		"who gets requests is a matter of events and times: it knows the ledger, and no server"},
	{"serving/gauges", []string{"router/fleet"},
		"what engines say of themselves corrects the ledger, whoever asks"},
	{"serving/experience", []string{"router/fleet"},
		"logged requests are facts: those who judge or train on them read them without a server or a policy"},
	{"serving/keys", []string{"serving/setting"},
		"who may ask how much is decided without a look at what they ask"},
	{"serving/fields", nil,
		"which fields pass is a matter of their names"},
	{"serving/remote", nil,
		"who a client is follows from addresses: it knows no request"},
	{"serving/tries", nil,
		"failed tries are counted by address, whatever was tried: it reads no clock"},
	{"serving/connections", nil,
		"connections are counted whatever they carry"},
	{"serving/memory", nil,
		"how many bytes requests may hold is counted without a look at them, and time is passed in"},
	{"serving/leases", nil,
		"who holds places is a matter of names, shares and counts: what is held is the caller's"},
	{"serving/tracing", []string{"serving/setting"},
		"an exporter takes spans from anyone: what they tell is the server's business"},
	{"serving/files", nil,
		"a change of a file is a matter of what it holds, whatever that means"},
	{"serving/browser", nil,
		"what a web page may do is read from headers, whatever it asks for"},
	{"serving/paths", nil,
		"a path is text: which of them there are is the server's business"},
	{"serving/queue", nil,
		"an order of what waits, whatever that is: it reads no clock and holds no lock"},
	{"serving", []string{"router", "router/fleet", "serving/wire", "serving/tokens", "serving/queue", "serving/health", "router/drift", "serving/gauges", "serving/experience", "serving/keys", "serving/memory", "serving/connections", "serving/leases", "serving/fields", "serving/remote", "serving/tries", "serving/files", "serving/setting", "serving/browser", "serving/paths", "serving/complaint"},
		"the server routes through an interface and must link no training stack"},
	{"serving/memnet", nil,
		"a kit for whoever tests what listens: it carries bytes, whatever they say"},
	{"serving/dashboard", []string{"serving", "router/fleet"},
		"a page shows what the server tells of itself: it asks nobody else"},
	{"cmd/gearshift/scenario", []string{
		"router/fleet", "router/observation", "router/profile", "router/balance", "router/policy", "workloads",
		"env/engine", "env", "env/evaluation", "rl", "serving/address", "serving/setting", "serving/backend", "serving/health", "serving/gauges", "serving/memory", "serving"},
		"a file is composed of what the rooms own, and describes: it learns nothing, stores nothing and serves nobody"},
	{"cmd/gearshift/output", []string{"internal/durable"},
		"how results are written is the same for all commands: it does not know what it writes"},
	{"cmd/gearshift/adapt", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/output", "router/fleet", "router/observation", "env/evaluation"},
		"a scenario is edited as text: what goes in comes from the command"},
	{"cmd/gearshift/draft", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/output", "router/profile", "env/engine"},
		"a scenario is made of facts: who asked for them is not its business"},
	{"cmd/gearshift/discovery", []string{"cmd/gearshift/draft", "serving/caller"},
		"it asks engines and reports: what becomes of the answers is drafted elsewhere"},
	{"cmd/gearshift/policies", []string{
		"cmd/gearshift/scenario", "router/fleet", "router/nn", "router/policy", "workloads",
		"env", "env/evaluation", "env/planner", "checkpoints"},
		"a reference becomes a policy in the same way whoever asks: it knows no learner and no server"},
	{"cmd/gearshift/judging", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/policies", "router/nn", "router/observation", "router/policy", "workloads",
		"env", "env/evaluation", "checkpoints"},
		"a policy is judged in the same way whoever asks, trainer, importer or operator: it learns nothing"},
	{"cmd/gearshift/local", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/policies", "router/fleet", "router/nn", "router/ort", "router/policy", "workloads",
		"checkpoints", "checkpoints/onnx", "serving/setting", "serving/backend", "serving/backend/classifier", "serving/backend/decoder", "serving/backend/onnx", "serving/models"},
		"whether this build has ONNX Runtime, and where its library is, is known here and nowhere else"},
	{"cmd/gearshift/live", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/policies", "cmd/gearshift/judging", "cmd/gearshift/local",
		"router/fleet", "router/policy", "router/profile", "router/admission", "router/drift", "router", "workloads", "env/engine",
		"serving/setting", "serving/address", "serving/files", "serving/backend", "serving/experience", "serving/tracing", "serving/dashboard", "serving", "checkpoints"},
		"a router that runs is wired in one place, by the command and by tests alike: it trains nothing"},
	{"cmd/gearshift/fromlog", []string{
		"cmd/gearshift/scenario", "router/fleet", "router/profile", "workloads", "env/evaluation", "env/evaluation/logged", "serving/experience"},
		"a log is read in the same way to judge by and to learn from: it does neither store nor learn"},
	{"cmd/gearshift/training", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/policies", "cmd/gearshift/judging", "cmd/gearshift/fromlog", "cmd/gearshift/output",
		"router/fleet", "router/nn", "router/observation", "router/policy", "router/profile", "workloads",
		"env", "env/evaluation", "env/evaluation/logged", "rl", "rl/dqn", "serving/experience", "checkpoints"},
		"a run joins the learner with simulator, judge and store: it serves nobody, and a build that only serves leaves it out"},
	{"cmd/gearshift/paper", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/policies", "router/fleet", "router/observation", "router/profile", "router/policy", "workloads",
		"env", "env/evaluation", "env/evaluation/report", "env/planner", "rl", "checkpoints"},
		"a report plays policies and lays out numbers: who trains for it is told by the command"},
	{"cmd/gearshift/bound", []string{
		"cmd/gearshift/scenario", "router/fleet", "workloads", "env", "env/evaluation", "env/planner"},
		"a bound is arithmetic on requests and plays of what is given: what a reference names, and how it is printed, is the command's"},
	{"cmd/gearshift/machine", []string{"serving/measure"},
		"where something is measured is read off the system and a URL: what is measured there is the command's business"},
	{"cmd/gearshift/enginetest", []string{
		"cmd/gearshift/scenario", "router/fleet", "workloads", "env/engine", "serving/wire", "serving/backend"},
		"a kit for whoever tests what measures engines: it has a scenario's engines, and no client"},
	{"cmd/gearshift/profiling", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/output", "cmd/gearshift/machine", "router/profile", "env/engine", "env/fit", "env/fit/steady",
		"env/evaluation/report", "serving/measure"},
		"what was measured or logged becomes a profile in the same way whoever did so: it asks no engine"},
	{"cmd/gearshift/validation", []string{
		"cmd/gearshift/scenario", "cmd/gearshift/machine", "cmd/gearshift/profiling", "router/fleet", "router/policy", "router/profile", "workloads",
		"env", "env/evaluation", "env/fit", "serving/measure", "serving/setting"},
		"requests are sent and simulated in the same way whoever asks: the router's policy comes from the command, as do flags and formats"},
	{"internal/race", nil,
		"a constant of the build, for tests"},
	{"internal/archtest", nil,
		"it reads source files, not packages"},
}

// kits are the rooms made for tests: any test may import them, and no row above
// lets other code do so.
var kits = []string{"router/conformance", "rl/rltest", "env/envtest", "serving/memnet", "cmd/gearshift/enginetest", "internal/race"}

// wiring is where packages are joined: the commands may import every room, and no
// room may import them.
var wiring = []string{"cmd/gearshift", "cmd/overhead"}

// fence keeps packages from outside the module within some rooms.
type fence struct {
	packages []string // import paths, each standing for what lies below it too
	only     []string // rooms, each standing for what lies below it too
	why      string
}

var fences = []fence{
	{[]string{"gorgonia.org", "go4.org/unsafe/assume-no-moving-gc"}, []string{"rl/dqn"},
		"graphs and tapes stay behind rl.Learner: a build that only serves leaves them out"},
	{[]string{"gonum.org/v1/netlib"}, []string{"rl/dqn"},
		"C belongs to the learner, and to the build tag that asks for it"},
	{[]string{"gonum.org/v1/plot"}, []string{"env/evaluation/report"},
		"figures and their fonts are for reports: a build that only serves leaves them out"},
	{[]string{"github.com/gin-gonic"}, []string{"serving"},
		"HTTP is the server's business"},
	{[]string{"github.com/prometheus"}, []string{"serving", "cmd/gearshift/discovery"},
		"metrics are read off the ledger by the server, never fed from below; who asks an engine what it is reads its page"},
	{[]string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters"}, []string{"serving/tracing"},
		"spans are made through OpenTelemetry's interfaces, and sent in one place"},
	{[]string{"go.opentelemetry.io"}, []string{"serving"},
		"what is traced is a request over HTTP, not a decision or a simulation"},
	{[]string{"go.etcd.io/bbolt"}, []string{"checkpoints"},
		"the store is opened, copied out of and closed in one place"},
	{[]string{"github.com/yalue/onnxruntime_go"}, []string{"router/ort", "serving/backend/onnx"},
		"a C library stays behind the build tag that asks for it: one room for policies, one for the models that they choose among"},
	{[]string{"github.com/dlclark/regexp2"}, []string{"serving/backend/tokenizer"},
		"patterns that look ahead take their time: Go's own do wherever they can"},
	{[]string{"github.com/spf13", "go.yaml.in/yaml", "golang.org/x/term"}, []string{"cmd"},
		"flags, files and terminals are for the command: a library takes values"},
	{[]string{"net/http"}, []string{"serving", "cmd"},
		"decisions, simulation and training know no HTTP"},
	{[]string{"flag", "log"}, []string{"internal/archtest"},
		"a library neither defines flags nor logs by itself"},
	{[]string{"testing"}, kits,
		"what tests need is not linked into the binary"},
	{[]string{"math/rand"}, nil,
		"its global source cannot be seeded reproducibly; math/rand/v2 takes an explicit one"},
}

// excused are the imports that a fence on a parent path would catch by name only.
var excused = map[string]bool{
	"math/rand/v2": true,
	"log/slog":     true,
}
