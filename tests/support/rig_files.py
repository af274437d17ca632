"""The files of a rig, to be filled in: a worker and the pipeline of its gateway."""

WORKER = """\
version: 1
name: rig-worker
state_dir: {store}
listen:
  {link}: {{address: "127.0.0.1:{port}"}}
  http: {{address: "127.0.0.1:0"}}
models:
  {model}:
    detector: {{kind: synthetic, delay: {far_delay}, labels: [thing]}}
{worker_extra}"""

PIPELINE = """\
version: 1
agent: rig-gateway
state_dir: {root}/gateway
deadline: {deadline}
rtt_budget: {{fall_back_above: 200ms, return_below: 100ms}}
streams:
  cam: {{source: {{kind: synthetic, size: {size}, fps: {fps}}}}}
near:
  detector: {{kind: synthetic, delay: {near_delay}, labels: [thing]{near_extra}}}
links:
  cable: {{url: "{link}://127.0.0.1:{link_port}"}}
scheduler: {{policy: {policy}}}
sinks:
  - {{kind: stdout}}
{extra}"""
