package main

import "gearshift/cmd/gearshift/cli"

// sections are the groups of commands in the help, in their order.
var sections = []cli.Section{
	{ID: "start", Title: "Start", Example: "init --engine gpu0=http://10.0.0.1:8000"},
	{ID: "operate", Title: "Operate", Example: "policy promote mine"},
	{ID: "measure", Title: "Measure", Example: "profile measure --url http://127.0.0.1:8000/v1 --out small.yaml"},
	{ID: "research", Title: "Research", Example: "workload stat u1 --scenario mine.yaml"},
}

// listed has each command by its path.
var listed = map[string]cli.Listing{
	"init":     {Section: "start", Synonyms: []string{"setup", "discover"}},
	"scenario": {Section: "start", Example: "scenario show titan-rtx-opt > mine.yaml\nscenario check mine.yaml"},
	"train":    {Section: "start", Example: "train --scenario mine.yaml --preset quick --name mine\ntrain --scenario mine.yaml --name mine --resume", Synonyms: []string{"learn"}},
	"eval":     {Section: "start", Example: "eval --scenario mine.yaml --policy mine --policy slackfit --workload u1 --seeds 10", Synonyms: []string{"evaluate", "compare"}},
	"serve":    {Section: "start", Example: "serve --scenario mine.yaml\nserve --scenario mine.yaml --policy mine --addr :8080\nserve --engine gpu0=http://10.0.0.1:8000 --engine gpu0=http://10.0.0.1:8001", Synonyms: []string{"start", "run", "server"}},

	"policy":  {Section: "operate", Example: "policy ls\npolicy promote mine", Synonyms: []string{"policies"}},
	"quality": {Section: "operate", Example: "quality fit --data labels.jsonl --name mine\nquality promote mine", Synonyms: []string{"predictor", "predictors", "predict"}},
	"store":   {Section: "operate", Example: "store verify", Synonyms: []string{"db"}},
	"key":     {Section: "operate", Example: "key new alice --rate 5 --keys gearshift.keys", Synonyms: []string{"keys"}},
	"lease":   {Section: "operate", Example: "lease ls", Synonyms: []string{"leases"}},
	"models":  {Section: "operate", Example: "models ls\nmodels roll large --to 2", Synonyms: []string{"model", "versions", "version"}},
	"replica": {Section: "operate", Example: "replica ls\nreplica unload opt-6.7b@gpu0 --wait", Synonyms: []string{"replicas"}},

	"profile":   {Section: "measure", Example: "profile measure --url http://127.0.0.1:8000/v1 --out small.yaml", Synonyms: []string{"measure"}},
	"calibrate": {Section: "measure", Example: "calibrate --scenario mine.yaml --dir walk\ncalibrate --scenario tiny --dir walk --preset quick --measure-time 15s"},
	"validate":  {Section: "measure", Example: "validate --scenario mine.yaml"},
	"stream":    {Section: "measure", Example: "stream --url http://127.0.0.1:8080 --clients 20 --sla 0.06", Synonyms: []string{"camera"}},
	"replay":    {Section: "measure", Example: "replay --url http://127.0.0.1:8080 --trace mine.jsonl --duration 1m", Synonyms: []string{"load"}},
	"engine":    {Section: "measure", Example: "engine --scenario tiny --addr 127.0.0.1:8101", Synonyms: []string{"simulate"}},

	"paper":    {Section: "research", Example: "paper --out report"},
	"bound":    {Section: "research", Example: "bound --scenario tiny"},
	"league":   {Section: "research", Example: "league --seeds 1-20 --out fleets\nleague --seeds 1-5 --policy priced:1,0.05,0.25,0.6,0.25"},
	"workload": {Section: "research", Example: "workload stat u1 --scenario mine.yaml", Synonyms: []string{"trace", "workloads"}},

	"modality": {Section: "research", Example: "modality plan --in queue.json", Synonyms: []string{"modalities"}},

	"offload":  {Section: "research", Example: "offload plan --in clients.json", Synonyms: []string{"streams"}},
	"failover": {Section: "research", Example: "failover plan --in problem.json", Synonyms: []string{"backup", "backups", "placement"}},

	"version": {Example: "version"},

	"scenario draw": {Example: "scenario draw --seed 7 > drawn-7.yaml"}, "scenario save": {Example: "scenario save -o mine.yaml\nscenario save --admin http://10.0.0.7:8081 -o mine.yaml"},
	"scenario ls": {Example: "scenario ls"}, "scenario show": {Example: "scenario show tiny > mine.yaml"},
	"scenario upstreams": {Example: "scenario upstreams tiny --at http://10.0.0.1:8000 > mine.yaml"},
	"scenario profiles":  {Example: "scenario profiles mine.yaml --from small.yaml --from large.yaml > measured.yaml"},
	"policy ls":          {Example: "policy ls"}, "policy show": {Example: "policy show mine"}, "policy promote": {Example: "policy promote mine\npolicy promote slackfit:0.93"},
	"policy rollback": {Example: "policy rollback mine"}, "policy rm": {Example: "policy rm mine@1"},
	"policy shadow": {Example: "policy shadow mine"}, "policy canary": {Example: "policy canary mine --share 0.1"}, "policy status": {Example: "policy status"},
	"policy keygen": {Example: "policy keygen signing.pem"}, "policy sign": {Example: "policy sign mine.onnx --key signing.pem"},
	"policy export": {Example: "policy export mine --onnx mine.onnx"}, "policy import": {Example: "policy import mine.onnx --name mine"},
	"quality sample": {Example: "quality sample --prompts mine.jsonl --score number --out labels.jsonl --engine large=http://10.0.0.1:8000 --engine small=http://10.0.0.2:8000"},
	"quality labels": {Example: "quality labels --data builtin:nine-models --count 300 > labels.jsonl"},
	"quality fit":    {Example: "quality fit --data labels.jsonl --name mine --plot mine.svg"}, "quality predict": {Example: "quality predict --data prompts.jsonl --quality mine"},
	"quality show": {Example: "quality show mine"}, "quality check": {Example: "quality check --data later.jsonl --quality mine --scenario mine.yaml"},
	"quality status": {Example: "quality status"}, "quality shadow": {Example: "quality shadow mine"}, "quality canary": {Example: "quality canary mine --share 0.1"}, "quality end": {Example: "quality end"},
	"quality ls": {Example: "quality ls"}, "quality promote": {Example: "quality promote mine"}, "quality rollback": {Example: "quality rollback mine"}, "quality rm": {Example: "quality rm mine@1"},
	"key new": {Example: "key new alice --rate 5 --keys gearshift.keys"}, "key ls": {Example: "key ls --keys gearshift.keys"}, "key rm": {Example: "key rm alice --keys gearshift.keys"},
	"workload gen": {Example: "workload gen u1 --out u1.jsonl"}, "workload stat": {Example: "workload stat u1"},
	"profile fit": {Example: "profile fit --requests requests.jsonl"}, "profile measure": {Example: "profile measure --url http://127.0.0.1:8000/v1 --out small.yaml"},
	"profile gpu":  {Example: "profile gpu gpu-out/table.jsonl --out gpu-out"},
	"offload plan": {Example: "offload plan --in clients.json"}, "offload status": {Example: "offload status"}, "offload watch": {Example: "offload watch --for 20s --out watched"},
	"failover plan": {Example: "failover plan --in problem.json"}, "failover simulate": {Example: "failover simulate --scenario faillite-testbed --policy all"}, "failover status": {Example: "failover status"},
	"failover drill": {Example: "failover drill gpu3"}, "failover failback": {Example: "failover failback"},
	"modality plan": {Example: "modality plan --in queue.json"},
	"models make":   {Example: "models make --out models"}, "models ls": {Example: "models ls"}, "models roll": {Example: "models roll large --to 2"},
	"models pause": {Example: "models pause large"}, "models continue": {Example: "models continue large"}, "models rollback": {Example: "models rollback large"},
}
