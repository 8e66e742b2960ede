"""Draws a trace of the clients that ServeGen recorded, in the form that gearshift reads.

usage: servegen_trace.py FOLDER FROM_HOUR TO_HOUR > trace.csv
"""
import ast, csv, glob, json, math, random, sys

folder, start, end = sys.argv[1], float(sys.argv[2]) * 3600, float(sys.argv[3]) * 3600
rng, requests = random.Random(1), []
for path in sorted(glob.glob(folder + "/chunk-*-trace.csv")):
    with open(path.replace("-trace.csv", "-dataset.json")) as f:
        lengths = {int(at): {k: ast.literal_eval(v) for k, v in law.items()} for at, law in json.load(f).items()}

    def draw(at, kind):
        law = lengths[max(x for x in lengths if x <= at)].get(kind) or {0: 1}
        return int(rng.choices(list(law), list(law.values()))[0])

    with open(path) as f:
        for row in csv.reader(f):
            begin, rate = float(row[0]), float(row[1])
            if begin + 600 <= start or begin >= end or rate <= 0:
                continue
            cv, shape = float(row[2] or 1), float(row[4] or 1) if len(row) > 4 else 1
            at = begin
            while True:
                if row[3] == "Gamma":
                    at += rng.gammavariate(1 / cv**2, cv**2 / rate)
                elif row[3] == "Weibull":
                    at += rng.weibullvariate(1, shape) / math.gamma(1 + 1 / shape) / rate
                else:
                    at += rng.expovariate(rate)
                if at >= begin + 600:
                    break
                if start <= at < end:
                    requests.append((at - start, draw(at, "text_tokens") + draw(at, "image_tokens"), draw(at, "output_tokens")))
print("at_s,prompt_tokens,output_tokens")
for at, prompt, output in sorted(requests):
    print("%.3f,%d,%d" % (at, max(1, prompt), max(1, output)))
