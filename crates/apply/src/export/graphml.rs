//! GraphML (Brandes, Eiglsperger, Lerner: GraphML Primer): the tasks with their names and places, a directed edge for
//! each pair that communicates. networkx, igraph, Gephi and yEd read it.

use super::xml::readable;
use super::{Exporter, Placement};
use cohabit_model::{Error, Result};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

/// Attributes of nodes and edges: their name here and in the file, what they belong to, their type.
const KEYS: [(&str, &str, &str); 7] = [
    ("name", "node", "string"),
    ("host", "node", "string"),
    ("process", "node", "int"),
    ("rank", "node", "int"),
    ("pu", "node", "int"),
    ("place", "node", "string"),
    ("weight", "edge", "long"),
];

/// A `.graphml` file.
pub struct GraphMl;

impl Exporter for GraphMl {
    fn name(&self) -> &'static str {
        "graphml"
    }
    fn about(&self) -> &'static str {
        "graph of the tasks with their names and PUs, for networkx, igraph, Gephi, yEd"
    }
    fn usage(&self) -> &'static str {
        "networkx.read_graphml(FILE)"
    }
    fn export(&self, placement: &Placement) -> Result<String> {
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
        let written = write(&mut writer, placement);
        written.map_err(|error| Error::new(format!("cannot write GraphML: {error}")))?;
        let mut text = String::from_utf8(writer.into_inner()).expect("it is made from strings");
        text.push('\n');
        Ok(text)
    }
}

fn write(writer: &mut Writer<Vec<u8>>, placement: &Placement) -> std::io::Result<()> {
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let namespace = ("xmlns", "http://graphml.graphdrawing.org/xmlns");
    writer.create_element("graphml").with_attribute(namespace).write_inner_content(|writer| {
        for (name, of, kind) in KEYS {
            // Readers take a long for a signed number of 64 bits.
            let kind = if name == "weight" && i64::try_from(placement.weight.max()).is_err() { "double" } else { kind };
            let attributes = [("id", name), ("for", of), ("attr.name", name), ("attr.type", kind)];
            writer.create_element("key").with_attributes(attributes).write_empty()?;
        }
        let attributes = [("id", "tasks"), ("edgedefault", "directed")];
        writer
            .create_element("graph")
            .with_attributes(attributes)
            .write_inner_content(|writer| graph(writer, placement))?;
        Ok(())
    })?;
    Ok(())
}

fn graph(writer: &mut Writer<Vec<u8>>, placement: &Placement) -> std::io::Result<()> {
    for task in &placement.mapping.tasks {
        let part = placement.topology.pu_on(&task.host, task.pu).map(|pu| super::dot::part_name(placement, pu));
        let values = [
            ("name", Some(task.name.clone())),
            ("host", Some(task.host.clone()).filter(|host| !host.is_empty())),
            ("process", Some(task.process.to_string())),
            ("rank", task.rank.map(|rank| rank.to_string())),
            ("pu", Some(task.pu.to_string())),
            ("place", part),
        ];
        let id = task.task.to_string();
        writer.create_element("node").with_attribute(("id", id.as_str())).write_inner_content(|writer| {
            values.iter().try_for_each(|(key, value)| value.as_ref().map_or(Ok(()), |value| data(writer, key, value)))
        })?;
    }
    let id = |index: u32| placement.mapping.tasks[index as usize].task.to_string();
    for (source, destination, value) in placement.weight.iter() {
        let (source, destination) = (id(source), id(destination));
        let attributes = [("source", source.as_str()), ("target", destination.as_str())];
        let edge = writer.create_element("edge").with_attributes(attributes);
        edge.write_inner_content(|writer| data(writer, "weight", &value.to_string()))?;
    }
    Ok(())
}

fn data(writer: &mut Writer<Vec<u8>>, key: &str, value: &str) -> std::io::Result<()> {
    let text = readable(value);
    writer.create_element("data").with_attribute(("key", key)).write_text_content(BytesText::new(&text))?;
    Ok(())
}
