"""A small well-formed file of every format that a test writes itself."""

from __future__ import annotations


def objects(format):
    """A small well-formed file of every JSON format, as rows to mutate."""
    hashes = [[0, 1], [0, 1, 2, 3], [7], [0, 1, 2, 4, 5]]
    lengths = [(900, 20), (1700, 30), (100, 5), (2400, 7)]
    match format:
        case "mooncake":
            return [
                {"timestamp": 1000 * i, "input_length": a, "output_length": b, "hash_ids": h}
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "qwen_bailian":
            return [
                {
                    "chat_id": i,
                    "parent_chat_id": i - 1 if i else -1,
                    "timestamp": i / 2,
                    "input_length": a,
                    "output_length": b,
                    "type": "text",
                    "turn": i + 1,
                    "hash_ids": h,
                }
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "ragpulse":
            return [
                {
                    "timestamp": str(i),
                    "input_length": a,
                    "output_length": b,
                    "session_id": f"s{i % 2}",
                    "hash_ids": {
                        "sys_prompt": h,
                        "passages_ids": [],
                        "history": [1],
                        "web_search": [],
                        "user_input": [i],
                    },
                }
                for i, ((a, b), h) in enumerate(zip(lengths, hashes))
            ]
        case "tracelab":
            return [
                {
                    "session_id": "s",
                    "round_index": i,
                    "round_id": "r",
                    "input_tokens_total": a,
                    "prefix_tokens": a // 2,
                    "newly_append_tokens": a - a // 2,
                    "output_tokens": b,
                    "first_input_event_type": "user_message",
                    "timing_events": [
                        {"event_type": "user_message", "timestamp": f"2026-06-01T05:40:2{i}.151Z"}
                    ],
                }
                for i, (a, b) in enumerate(lengths)
            ]
        case "lmcache_agent":
            return [
                {
                    "timestamp": 10**15 + 10**6 * i,
                    "session_id": f"s{i % 2}",
                    "input": "a" * a,
                    "output": "b" * b,
                }
                for i, (a, b) in enumerate(lengths)
            ]
        case "kv_cache_tester":
            return [
                {
                    "id": "t",
                    "block_size": 64,
                    "requests": [
                        {
                            "t": float(i),
                            "type": "n",
                            "in": a,
                            "out": b,
                            "hash_ids": h,
                            "input_types": ["text"],
                        }
                        for i, ((a, b), h) in enumerate(zip(lengths, hashes))
                    ]
                    + [{"type": "subagent", "requests": [{"t": 1.0, "in": 64, "out": 1, "hash_ids": [1]}]}],
                }
            ]
        case "sharegpt":
            talk = [{"from": "human", "value": "abcd"}, {"from": "gpt", "value": "efgh"}]
            return [{"id": f"x_{i}", "conversations": talk * i} for i in range(4)]
        case "vllm_multi_turn":
            talk = [{"role": "user", "content": "abcd"}, {"role": "assistant", "content": "efgh"}]
            return [{"id": f"x{i}", "messages": talk * i} for i in range(4)]


JSON_FORMATS = (
    "mooncake",
    "qwen_bailian",
    "ragpulse",
    "tracelab",
    "lmcache_agent",
    "kv_cache_tester",
    "sharegpt",
    "vllm_multi_turn",
)
CSV_FILES = {
    "burstgpt": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Type\n"
    "5,1,1,GPT,100,20,120,x\n9,1,1,GPT,130,3,133,x\n9,,1,GPT,10,5,15,x\n",
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    "2023-11-16 18:15:50.9951690,396,109\n2023-11-16 18:15:51.2224670,879,55\n",
    "vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n0.1,100,10\n0.2,90,9\n0.3,80,8\n",
    "agentic_steps": "trace,step,kind,t_s,think_time_s,api_time_s,in_tokens,shared_prefix_tokens,out_tokens\n"
    "a,0,human,0.0,0.0,7.3,1000,0,169\na,1,tool,19.0,12.0,9.1,1200,960,296\nb,0,human,0.0,0.0,1.0,50,0,1\n",
    "sharegpt_turns": "conv,turn,prompt_tokens,response_tokens\n0,0,34,244\n0,1,36,320\n1,0,0,5\n2,0,9,1\n",
    "generic": "session_id,timestamp,input_length,output_length\n1,1700000000,10,5\n"
    "1,1700000009,30,5\n2,1700000001,5,5\n",
}
