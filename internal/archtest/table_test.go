package archtest

// room bounds what the packages of a folder may import of this module. The row with the longest path that
// a package lies below holds for it. Paths stand for what lies below them, too; every package may import its
// own folder and those below it, and leaves. Tests may import anything but cmd.
type room struct {
	path string
	may  []string
	why  string // it may not import more
}

// facts are the rooms of router that any of its rooms may read: what there is, what it costs, how controllers
// are called.
var facts = []string{"router/fleet", "router/control", "router/profile", "router/signals", "router/observation", "router/nn", "router/solve", "router/placement"}

// leaves know nothing of this module but each other, and serve everybody.
var leaves = []string{"internal/faults", "internal/splitmix", "internal/durable", "internal/etcd"}

var rooms = []room{
	{"router", append(facts, "router/queue"),
		"the core joins view, policy, balancer and lease by their interfaces; its rooms know facts and costs, and not each other, the simulator or a server"},
	{"router/failover", append(facts, "router/lifecycle"), "what keeps applications answered wants states of who owns them, and knows nothing of the others who do"},
	{"router/placement/bands", append(facts, "router/lifecycle"), "what moves replicas wants states of who owns them, and knows nothing of the others who do"},
	{"router/placement/layouts", append(facts, "router/lifecycle"), "what decides which sizes are up wants states of who owns them, and knows nothing of the others who do"},
	{"router/placement/replicas", append(facts, "router/lifecycle"), "what counts replicas wants states of who owns them, and knows nothing of the others who do"},
	{"router/rollout", append(facts, "router/lifecycle"), "what changes versions wants states of who owns them, and knows nothing of the others who do"},
	{"router/conformance", []string{"router", "router/balance", "router/fleet", "router/signals"},
		"a kit for authors of policies and balancers knows their interfaces, and no implementation"},
	{"router/fleet", nil, "facts are the bottom: what counts requests must not drag in a policy, a simulator or a server"},
	{"router/control", []string{"router/fleet"}, "what acts on its own time is told the time, and acts through an actuator"},
	{"router/profile", []string{"router/fleet"}, "a latency model is data about a replica"},
	{"router/signals", []string{"router/fleet"}, "what engines say of themselves corrects the ledger"},
	{"router/observation", []string{"router/fleet"}, "simulator and server encode through it, so that it knows neither"},
	{"router/nn", nil, "a forward pass is arithmetic"},
	{"router/quality/scoring", nil, "an answer is valued by its text, no matter which engine gave it"},
	{"router/queue", nil, "an order of what waits, whatever that is"},
	{"router/solve", nil, "an optimiser knows costs and values: what they stand for is the planner's"},

	{"workloads", []string{"router/fleet"}, "requests arrive in the same way for a simulation and for a server"},
	{"env", []string{"router", "workloads"}, "a simulation decides by the router's own code, is judged by any policy, and imports no learner"},
	{"rl", []string{"router/nn"}, "the training loop sees an Env and a Learner, so that another environment or learner plugs in"},
	{"checkpoints", []string{"router/nn", "router/observation"}, "a stored policy can be read without the code that trained it"},

	{"serving", []string{"router"}, "a server asks the router, and knows neither the simulator, nor a learner, nor the store of policies"},
	{"serving/backend", []string{"router", "serving", "env/engine", "checkpoints/onnxfile"}, "the simulated backend runs the simulator's engine in real time; models are files of ONNX"},
	{"serving/backend/models", []string{"checkpoints/onnxfile"}, "weights and files are made without a look at what computes them"},

	{"internal", nil, "a leaf serves everybody, and knows nobody"},
	{"internal/output", nil, "how results are written is the same for all commands"},
	{"internal/scenario", []string{"router", "env", "workloads", "rl", "serving", "internal/output", "internal/quality/labels"},
		"a file is composed of what the rooms own, and describes: it learns, stores and serves nothing"},
	{"internal/training", []string{"router", "env", "workloads", "rl", "checkpoints", "serving", "internal/scenario", "internal/output", "internal/onnxruntime"},
		"a run joins learner, simulator, judge and store: it serves nobody"},
	{"internal/training/families", []string{"router", "workloads", "rl", "checkpoints/onnxfile", "serving", "internal/scenario", "internal/onnxruntime"},
		"models to try engines with are trained and counted: no policy and no store is involved"},
	{"internal/training/policies", []string{"router", "env", "workloads", "checkpoints", "serving/experience", "internal/scenario", "internal/output"},
		"trainer, importer and operator find and judge a policy alike: it knows no learner and no server"},
	{"internal/onnxruntime", []string{"router", "workloads", "checkpoints", "serving", "internal/scenario", "internal/training/policies"},
		"whether this build has ONNX Runtime, and where its library is, is known here and nowhere else"},
	{"internal/app", []string{"router", "env", "workloads", "checkpoints", "serving", "internal/scenario", "internal/onnxruntime", "internal/training/policies", "internal/quality", "internal/calibrate/draft", "internal/learning"},
		"a router that runs is assembled in one place, by the command and by tests alike: it trains nothing"},
	{"internal/calibrate", []string{"router", "env", "workloads", "checkpoints", "serving", "internal/scenario", "internal/output", "internal/training", "internal/app", "internal/onnxruntime"},
		"the walk from engines to a policy: it joins what measures, trains and serves, and reports nothing"},
	{"internal/learning", []string{"router/drift", "router/fleet", "router/profile", "env/fit"},
		"it fits models to what was seen, in a simulation as in a server: it knows neither"},
	{"internal/quality", []string{"router/quality", "env/evaluation", "workloads", "checkpoints", "internal/scenario"},
		"a predictor is fitted, judged and stored by commands and reports alike: it serves nothing, and knows no simulator"},
	{"internal/quality/labels", []string{"workloads"}, "a file of labelled prompts is read in one way, whatever it is read for"},
	{"internal/quality/sampling", []string{"router/quality/scoring", "serving/openai/tokens", "workloads/traces", "internal/calibrate/loadgen"},
		"it asks through a function, and fits nothing: labels are a file"},
	{"internal/streaming", []string{"router", "env", "workloads", "serving", "internal/scenario"},
		"emulated clients meet a router over the network, and the simulator by the same schedule"},
	{"internal/calibrate/loadgen", []string{"router/fleet", "workloads", "serving"}, "a client knows a server by its URL"},
	{"internal/calibrate/draft", []string{"router", "env", "serving", "internal/scenario", "internal/output", "internal/calibrate/loadgen"},
		"it makes a scenario from what engines say: it measures nothing"},
	{"internal/league", []string{"router", "env", "workloads", "rl", "checkpoints", "internal/scenario", "internal/output", "internal/training"},
		"it draws fleets, and has rules and policies tuned, trained and compared on them: it serves nothing"},
	{"internal/reports", []string{"router", "env", "workloads", "rl", "checkpoints", "internal/scenario", "internal/output", "internal/training", "internal/quality", "internal/league"},
		"a report plays systems and lays out numbers: it serves nothing"},
	{"cmd", []string{"router", "env", "workloads", "rl", "checkpoints", "serving", "internal"}, ""},
}

// kits are the rooms made for tests: any test may import them, and no row above
// lets other code do so.
var kits = []string{"router/conformance", "rl/rltest", "env/envtest", "internal/memnet", "internal/calibrate/enginetest", "internal/race", "internal/highs", "internal/etcd/etcdtest"}

// fence keeps packages from outside the module within some rooms.
type fence struct {
	packages []string // import paths, each standing for what lies below it too
	only     []string // rooms, each standing for what lies below it too
	why      string
}

var fences = []fence{
	{[]string{"gorgonia.org", "go4.org/unsafe/assume-no-moving-gc"}, []string{"rl/dqn", "rl/fused", "rl/supervised"},
		"graphs stay behind learners: a build that only serves leaves them out"},
	{[]string{"gonum.org/v1/netlib"}, []string{"rl/fused"},
		"C belongs to learners, and to the build tag that asks for it"},
	{[]string{"gonum.org/v1/plot"}, []string{"env/evaluation/report"},
		"figures and their fonts are for reports: a build that only serves leaves them out"},
	{[]string{"github.com/gin-gonic"}, []string{"serving"},
		"HTTP is the server's business"},
	{[]string{"github.com/prometheus"}, []string{"serving", "internal/calibrate"},
		"metrics are read off the ledger by the server, never fed from below; what asks engines parses their metrics pages"},
	{[]string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters"}, []string{"internal/app"},
		"spans are made through OpenTelemetry's interfaces, and sent in one place"},
	{[]string{"go.opentelemetry.io"}, []string{"serving", "internal/app"},
		"what is traced is a request over HTTP, not a decision or a simulation"},
	{[]string{"go.etcd.io/bbolt"}, []string{"checkpoints", "serving/control/states", "internal/durable"},
		"the store is opened, copied out of and closed in one place; so is the state of a failover controller; both have their pages verified"},
	{[]string{"go.etcd.io/etcd"}, []string{"internal/etcd", "checkpoints/etcd", "serving/control/states/etcd"},
		"what routers share is read and written where its layout is known: the records of a store, the states of controllers"},
	{[]string{"github.com/coder/websocket"}, []string{"serving"},
		"sockets of browsers are the server's business"},
	{[]string{"github.com/yalue/onnxruntime_go"}, []string{"serving/backend/onnx"},
		"a C library stays behind the build tag that asks for it: one room for models and for policies"},
	{[]string{"github.com/dlclark/regexp2"}, []string{"serving/backend/tokenizer"},
		"patterns that look ahead take their time: Go's own do wherever they can"},
	{[]string{"github.com/santhosh-tekuri/jsonschema"}, []string{"router/quality/scoring"},
		"answers are validated in one place, by a schema that can load nothing"},
	{[]string{"github.com/spf13"}, []string{"cmd", "internal/reports"},
		"flags are for the command; reports register theirs"},
	{[]string{"go.yaml.in/yaml", "golang.org/x/term"}, []string{"cmd", "internal"},
		"files and terminals are for the command and its libraries: others take values"},
	{[]string{"net/http"}, []string{"serving", "cmd", "internal/app", "internal/calibrate", "internal/training", "internal/onnxruntime", "internal/memnet"},
		"decisions and simulation know no HTTP; training asks the digits models as a client does"},
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
